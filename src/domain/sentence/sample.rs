//! Sentences for the tests: one of each form, with parameters that are made of some texts.

/// The texts that parameters are made of, again and again.
#[derive(Debug, Default)]
pub struct Texts {
    given: Vec<String>,
    used: usize,
}

impl Texts {
    /// These texts.
    pub fn of(given: &[&str]) -> Self {
        Self {
            given: given.iter().map(ToString::to_string).collect(),
            used: 0,
        }
    }

    fn text(&mut self) -> String {
        self.used += 1;
        match self.given.len() {
            0 => format!("text-{}", self.used),
            many => self.given[self.used % many].clone(),
        }
    }
}

/// What can be the parameter of a sentence.
pub trait Sample: Sized {
    /// How many forms it has.
    fn forms() -> usize {
        1
    }

    /// One of a form.
    fn sample(form: usize, texts: &mut Texts) -> Self;
}

impl Sample for String {
    fn sample(_: usize, texts: &mut Texts) -> Self {
        texts.text()
    }
}

impl Sample for u16 {
    fn sample(_: usize, texts: &mut Texts) -> Self {
        200 + u16::try_from(texts.text().len() % 400).unwrap_or(0)
    }
}

impl Sample for u64 {
    fn sample(_: usize, texts: &mut Texts) -> Self {
        texts.text().len().try_into().unwrap_or(0)
    }
}

impl Sample for i64 {
    fn sample(_: usize, texts: &mut Texts) -> Self {
        texts.text().len().try_into().unwrap_or(0)
    }
}

impl Sample for usize {
    fn sample(_: usize, texts: &mut Texts) -> Self {
        texts.text().len()
    }
}
