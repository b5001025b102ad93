//! Sentences with parameters: how a template is written once, and how a sentence that was made of it is read back.
//!
//! A sentence is read as a whole: all of it must be the template with something in the places of the parameters. What was
//! read is written again and compared, so a sentence is never taken for another one.

#[cfg(test)]
pub(crate) mod sample;

use std::fmt::Display;
use std::str::FromStr;

/// The parameters of a sentence, in the order of the template.
pub(crate) struct SentenceParts<'a> {
    texts: std::vec::IntoIter<&'a str>,
}

impl SentenceParts<'_> {
    /// The next parameter; `None` if it is not one of this type.
    pub(crate) fn parameter<T: FromStr>(&mut self) -> Option<T> {
        self.texts.next()?.parse().ok()
    }

    /// What was read, if it has used all parameters.
    pub(crate) fn end<T>(&mut self, read: T) -> Option<T> {
        self.texts.next().is_none().then_some(read)
    }
}

/// Reads a sentence that was made of this template; `None` if it was not.
///
/// A text that a receiver has sent may contain a part of the template. So the parts between the parameters are looked for
/// from the end first, because receivers write what comes first, and then from the beginning.
pub(crate) fn read<'a, T: Display>(
    template: &str,
    sentence: &'a str,
    make: impl Fn(&mut SentenceParts<'a>) -> Option<T>,
) -> Option<T> {
    let (first, between, last) = pieces(template);
    let middle = sentence.strip_prefix(first)?;
    let made = |texts: Vec<&'a str>| {
        let texts = texts.into_iter();
        let made = make(&mut SentenceParts { texts });
        made.filter(|made| made.to_string() == sentence)
    };
    let Some(last) = last else {
        // A template without parameters.
        return if middle.is_empty() {
            made(Vec::new())
        } else {
            None
        };
    };
    let middle = middle.strip_suffix(last)?;
    let from_the_end = split_from_the_end(middle, &between).and_then(&made);
    from_the_end.or_else(|| split_from_the_beginning(middle, &between).and_then(&made))
}

/// The text before the first parameter, those between two, and the one after the last. There is no last one without a
/// parameter.
fn pieces(template: &str) -> (&str, Vec<&str>, Option<&str>) {
    let mut texts = template.split('{');
    let first = texts.next().unwrap_or_default();
    let mut rest: Vec<&str> = texts
        .filter_map(|text| Some(text.split_once('}')?.1))
        .collect();
    let last = rest.pop();
    (first, rest, last)
}

fn split_from_the_end<'a>(mut text: &'a str, between: &[&str]) -> Option<Vec<&'a str>> {
    let mut parts = Vec::with_capacity(between.len() + 1);
    for piece in between.iter().rev() {
        let (before, after) = text.rsplit_once(piece)?;
        parts.push(after);
        text = before;
    }
    parts.push(text);
    parts.reverse();
    Some(parts)
}

fn split_from_the_beginning<'a>(mut text: &'a str, between: &[&str]) -> Option<Vec<&'a str>> {
    let mut parts = Vec::with_capacity(between.len() + 1);
    for piece in between {
        let (before, after) = text.split_once(piece)?;
        parts.push(before);
        text = after;
    }
    parts.push(text);
    Some(parts)
}

/// A sentence that was made of none of the templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSentence;

/// Makes an enum whose variants are sentences: `Name { parameter: Type } = "the sentence with {parameter}";`. Parameters
/// are declared in the order of the sentence, each once. Where two templates could be taken for each other, the closer one
/// comes first.
macro_rules! sentences {
    ($(#[$note:meta])* $name:ident {
        $($variant:ident $({ $($field:ident: $type:ty),+ })? = $sentence:literal;)+
    }) => {
        $(#[$note])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(
                #[doc = $sentence]
                $variant $({ $(
                    #[doc = concat!("`", stringify!($field), "` of the sentence.")]
                    $field: $type,
                )+ })?,
            )+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? => write!(out, $sentence),)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::domain::sentence::UnknownSentence;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                use $crate::domain::sentence;
                $(
                    let read = sentence::read($sentence, text, |parts| {
                        let read = Self::$variant $({ $($field: parts.parameter()?),+ })?;
                        parts.end(read)
                    });
                    if let Some(read) = read {
                        return Ok(read);
                    }
                )+
                Err(sentence::UnknownSentence)
            }
        }

        #[cfg(test)]
        impl $crate::domain::sentence::sample::Sample for $name {
            fn forms() -> usize {
                Self::samples(&mut Default::default()).len()
            }

            fn sample(form: usize, texts: &mut $crate::domain::sentence::sample::Texts) -> Self {
                let mut all = Self::samples(texts);
                let form = form % all.len();
                all.swap_remove(form)
            }
        }

        #[cfg(test)]
        impl $name {
            /// A sentence of each variant, and of each form of its parameters.
            pub(crate) fn samples(
                texts: &mut $crate::domain::sentence::sample::Texts,
            ) -> Vec<Self> {
                let mut all = Vec::new();
                $(
                    let forms = [1 $($(, <$type as $crate::domain::sentence::sample::Sample>::forms())+)?];
                    for form in 0..forms.into_iter().max().unwrap_or(1) {
                        let _ = form;
                        all.push(Self::$variant $({ $(
                            $field: <$type as $crate::domain::sentence::sample::Sample>::sample(form, texts)
                        ),+ })?);
                    }
                )+
                let _ = texts;
                all
            }
        }
    };
}
pub(crate) use sentences;
