//! The endpoints that get the alerts: whether they are there and can be reached. Nothing is sent to them.

use super::destination;
use super::finding::{Finding, FindingLevel};
use super::{ReachTarget, within};
use crate::config::SettingsReview;
use crate::domain::endpoint::EndpointName;

const SUBJECT: &str = "alerts";

/// Examines each of them.
pub async fn examine(review: &SettingsReview) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &review.config.alerts.endpoints {
        let target = ReachTarget::Endpoint(name.clone());
        let reaching = within(SUBJECT, destination::examine(review, &target)).await;
        let found = reaching.unwrap_or_else(|finding| vec![finding]);
        findings.push(finding_of(name, found));
    }
    findings
}

/// What the steps on the way to an endpoint say together. It is a warning at most: a server works without alerts.
fn finding_of(name: &EndpointName, steps: Vec<Finding>) -> Finding {
    let worst = steps.into_iter().max_by_key(|step| step.level);
    match worst.filter(|worst| worst.level > FindingLevel::Ok) {
        None => Finding::ok(
            SUBJECT,
            format!("the endpoint {name}, which gets the alerts, can be reached"),
        ),
        Some(worst) => {
            let text = format!(
                "the endpoint {name}, which gets the alerts, cannot be reached: {}",
                worst.text
            );
            let mend = worst.mend.unwrap_or_default();
            Finding::warning(SUBJECT, text, &mend)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_step_is_a_warning() {
        let name = EndpointName::parse("pager").expect("a name");
        let ok = || Finding::ok("endpoint", "pager has the URL https://pager.example/");
        assert_eq!(finding_of(&name, vec![ok()]).level, FindingLevel::Ok);
        let missing = Finding::problem("endpoint", "there is no endpoint pager", "list them");
        let finding = finding_of(&name, vec![ok(), missing]);
        assert_eq!(finding.level, FindingLevel::Warning);
        assert_eq!(
            finding.text,
            "the endpoint pager, which gets the alerts, cannot be reached: there is no endpoint pager"
        );
        assert_eq!(finding.mend.as_deref(), Some("list them"));
    }
}
