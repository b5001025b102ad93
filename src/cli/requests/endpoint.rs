//! `ringback endpoint`: list, show, set, test and remove endpoints.

use super::endpoint_key::{KeyCommand, run as run_key};
use super::endpoint_lane::hold_of;
use super::endpoint_patch::{SetArguments, without_nulls};
use super::endpoint_text::{endpoint_text, list_text};
use super::{NOT_OURS, print_text, text_of};
use crate::api::problem::ProblemKind;
use crate::cli::client::{Client, ServerArguments};
use crate::cli::terminal::{Colours, now_ms};
use crate::cli::timeline::attempt_text;
use crate::cli::view::AttemptDetails;
use crate::cli::{CommandFailure, block_on};
use crate::domain::attempt::Outcome;
use crate::domain::endpoint::EndpointName;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::Value;

#[derive(Subcommand)]
pub enum EndpointCommand {
    /// List endpoints, in the order of their names
    List(EndpointListArguments),
    /// Show one endpoint
    Show(NameArguments),
    /// Make an endpoint, or change what the flags name; an empty value removes a setting
    Set(Box<SetArguments>),
    /// Make one signed test call to an endpoint; nothing of it is kept. Ends with status 1 if it is not acknowledged
    Test(NameArguments),
    /// Add, remove and list the signing keys of an endpoint
    #[command(subcommand)]
    Key(KeyCommand),
    /// Remove an endpoint; refused while notifications that name it are pending
    Remove(NameArguments),
}

#[derive(Args)]
pub struct NameArguments {
    /// The name of the endpoint
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Args)]
pub struct EndpointListArguments {
    /// Maximum number of items
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The cursor that the previous page printed, to show the next page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
}

/// Sends the request and prints the answer.
pub fn run(command: EndpointCommand) -> Result<(), CommandFailure> {
    match command {
        EndpointCommand::List(list) => print_list(&list),
        EndpointCommand::Show(NameArguments { name, server }) => {
            let one = OneEndpoint::of(&name, &server)?;
            let answer = one.request(Method::GET, &[], None)?;
            one.print(answer, &server)
        }
        EndpointCommand::Set(arguments) => set(&arguments),
        EndpointCommand::Test(NameArguments { name, server }) => {
            let one = OneEndpoint::of(&name, &server)?;
            let answer = one.request(Method::POST, &["test"], None)?;
            let attempt: AttemptDetails = serde_json::from_slice(&answer).context(NOT_OURS)?;
            print_text(answer, &server, |_| {
                Ok(attempt_text(&attempt, Colours::of_stdout()))
            })?;
            match attempt.outcome == Outcome::Acknowledged.as_str() {
                true => Ok(()),
                false => Err(CommandFailure::Printed("the call was not acknowledged")),
            }
        }
        EndpointCommand::Key(command) => run_key(command),
        EndpointCommand::Remove(NameArguments { name, server }) => {
            let one = OneEndpoint::of(&name, &server)?;
            let removed = one.request(Method::DELETE, &[], None);
            removed.map_err(|failure| with_list_of_pending(failure, &name))?;
            let text = if server.json { "null\n" } else { "removed\n" };
            text_of(text.as_bytes())?;
            if let Some(hold) = one.hold() {
                eprintln!("note: its lane stays held, {hold}");
            }
            Ok(())
        }
    }
}

/// An endpoint, and the client for all requests about it: the file with the API key is read once, since it may be a pipe.
struct OneEndpoint {
    name: EndpointName,
    client: Client,
}

impl OneEndpoint {
    fn of(name: &str, server: &ServerArguments) -> Result<Self, CommandFailure> {
        let name =
            EndpointName::parse(name).map_err(|bad| CommandFailure::Usage(bad.to_string()))?;
        let client = Client::new(server)?;
        Ok(Self { name, client })
    }

    fn request(
        &self,
        method: Method,
        below: &[&str],
        body: Option<&Value>,
    ) -> Result<Vec<u8>, CommandFailure> {
        let mut segments = vec!["endpoints", self.name.as_str()];
        segments.extend(below);
        block_on(self.client.call(method, self.client.url(&segments), body))
    }

    /// Who holds its lane; `None` if nobody does.
    fn hold(&self) -> Option<String> {
        hold_of(&self.client, &self.name, now_ms())
    }

    /// Prints it and who holds its lane. The JSON is that of the server, which has the hold with the lane.
    fn print(&self, answer: Vec<u8>, server: &ServerArguments) -> Result<(), CommandFailure> {
        let hold = match server.json {
            true => None,
            false => self.hold(),
        };
        print_text(answer, server, |answer| {
            let endpoint = serde_json::from_slice(answer)?;
            let colours = Colours::of_stdout();
            Ok(endpoint_text(&endpoint, hold.as_deref(), colours, now_ms()))
        })
    }
}

/// Changes the endpoint. If there is none, makes it.
fn set(arguments: &SetArguments) -> Result<(), CommandFailure> {
    let SetArguments { name, server, .. } = arguments;
    let patch = arguments.patch()?;
    let one = OneEndpoint::of(name, server)?;
    let changed = one.request(Method::PATCH, &[], Some(&patch));
    let answer = match changed {
        Err(CommandFailure::Refused(mut refusal)) if refusal.is_missing() => {
            if arguments.url.is_none() {
                refusal.advise("--url: give it to make the endpoint");
                return Err(CommandFailure::Refused(refusal));
            }
            one.request(Method::PUT, &[], Some(&without_nulls(&patch)))?
        }
        answer => answer?,
    };
    one.print(answer, server)
}

/// Adds the command that lists what keeps an endpoint from being removed.
fn with_list_of_pending(failure: CommandFailure, name: &str) -> CommandFailure {
    match failure {
        CommandFailure::Refused(mut refusal) if refusal.is(ProblemKind::EndpointInUse) => {
            let list = format!("ringback list --lane endpoint:{name} --state pending");
            refusal.advise(&format!("`{list}` lists them"));
            CommandFailure::Refused(refusal)
        }
        failure => failure,
    }
}

fn print_list(list: &EndpointListArguments) -> Result<(), CommandFailure> {
    let client = Client::new(&list.server)?;
    let mut url = client.url(&["endpoints"]);
    let limit = list.limit.map(|limit| limit.to_string());
    for (name, value) in [("limit", &limit), ("cursor", &list.cursor)] {
        if let Some(value) = value {
            url.query_pairs_mut().append_pair(name, value);
        }
    }
    let answer = block_on(client.call(Method::GET, url, None))?;
    print_text(answer, &list.server, |answer| {
        let page = serde_json::from_slice(answer)?;
        Ok(list_text(&page, Colours::of_stdout(), now_ms()))
    })
}
