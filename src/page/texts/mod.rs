//! The texts of the page in both languages. Each page has its own file here.
//!
//! `texts!` makes a struct whose fields are texts. Each line has the English text and the Chinese one, so a text that is
//! not translated does not compile.

pub mod api_keys;
pub mod attempts;
pub mod audit_log;
pub mod audit_notes;
pub mod bulk;
pub mod default_key_warning;
pub mod destinations;
pub mod endpoint_fields;
pub mod endpoint_loss;
pub mod endpoints;
pub mod frame;
pub mod history;
pub mod job_reasons;
pub mod jobs;
pub mod letters;
pub mod notification;
pub mod outcomes;
pub mod overview;
pub mod plots;
pub mod reasons;
pub mod refusals;
pub mod search;
pub mod sign_in;
pub mod signing_keys;
pub mod states;
pub mod steps;
pub mod waiting;

/// Makes the struct of the texts of a page: `name: "English", "中文";` for each.
macro_rules! texts {
    ($name:ident { $($field:ident: $english:literal, $chinese:literal;)+ }) => {
        #[derive(Debug)]
        pub struct $name {
            $(pub $field: &'static str),+
        }

        impl $name {
            const ENGLISH: Self = Self { $($field: $english),+ };
            const CHINESE: Self = Self { $($field: $chinese),+ };

            /// The texts in this language.
            pub fn of(language: $crate::page::language::Language) -> &'static Self {
                match language {
                    $crate::page::language::Language::English => &Self::ENGLISH,
                    $crate::page::language::Language::Chinese => &Self::CHINESE,
                }
            }
        }
    };
}
use texts;
