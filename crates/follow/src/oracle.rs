//! The oracle `follow`: what a kernel does first that the profile of its version would not have done.

use crate::end::{End, Substrate};
use crate::follow::{Tolerance, follow};
use crate::read::{case_of, profile_of, unfollowable};
use crate::{Difference, read};
use tcpassay_judge::{Found, Level, Oracle};
use tcpassay_measure::{Header, Recording};
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};

/// The oracle.
pub const ORACLE: Oracle = Oracle {
    name: "follow",
    title: "a difference from the profile of its kernel",
    asserts: "each end of a connection sends what the profile of its kernel's version would have sent: at the same time (1 us), with the same fields \
              (sequence and acknowledgment number, length, flags, window, timestamps, SACK blocks, ECN field, options of a SYN), and nothing more and nothing less. \
              The profile gets what the end received and what its application called. Only the first difference of each end counts: after it the two have different states.",
    why: "The profile is an executable specification of the stack. A finding is never a violation of an RFC: its level is `difference`, and its text has the model's reason \
          and the function of Linux or the section of an RFC that has the rule.",
    evidence: "what was sent, what the model would have sent, and why; the last row of the event log of this end at that time.",
    wrong_when: "the model is wrong, or the log lacks what the kernel knew, which docs/follow.md lists with the share of the ends of plain kernels that are followed to the end. \
                 `tcpassay kernel compare` reports what the plain kernel does not have, or has later.",
    needs: &[],
};

/// The profiles that were compared with their kernel. Of others the differences are printed by `tcpassay follow` only.
fn measured(header: &Header) -> Option<Profile> {
    profile_of(header).filter(|profile| matches!(profile, Profile::Linux61 | Profile::Linux73))
}

/// What [`ORACLE`] must know of a run: it is one of a kernel in virtual time of which the model has a profile, with its packets.
pub const FOLLOWED: &str = "followed-kernel";

/// Why the oracle judges no end of a run on a kernel; `None` if it judges some.
pub fn lacks(header: &Header, traces: &dyn Fn(&str) -> std::io::Result<String>) -> Option<String> {
    if measured(header).is_none() {
        let release = header.system.as_deref().unwrap_or("of an unknown version");
        let unknown = format!("the model has no profile of Linux {release}");
        let unmeasured = |profile: Profile| {
            format!(
                "profile {} was not compared with a kernel; `tcpassay follow` prints its differences",
                profile.name()
            )
        };
        return Some(profile_of(header).map_or(unknown, unmeasured));
    }
    match case_of(header, Substrate::Kernel, traces) {
        Ok(case) => {
            let whys: Option<Vec<&str>> = case.hosts.iter().map(unfollowable).collect();
            whys?.first().map(|why| (*why).to_owned())
        }
        Err(why) => Some(why),
    }
}

/// The first differences of the ends of a run on a kernel as findings, each with the title "PROFILE: CAUSE". None for a recording
/// that cannot be followed, and for a kernel of which the model has no profile. `traces` reads files that the case names.
pub fn differences(recording: &Recording, traces: &dyn Fn(&str) -> std::io::Result<String>) -> Vec<Found> {
    let Some(profile) = measured(&recording.header).map(Profile::name) else { return Vec::new() };
    let Ok((ends, _)) = read(recording, traces) else { return Vec::new() };
    let ends = ends.iter().filter(|end| end.setup.substrate == Substrate::Kernel);
    ends.filter_map(|end| Some(finding(recording, end, &follow(end, &Tolerance::exact()).first?, profile)))
        .collect()
}

fn finding(recording: &Recording, end: &End, first: &Difference, profile: &str) -> Found {
    // The times of a kernel's rows are a nanosecond earlier than those of its log.
    let at = first.at.saturating_add(Dur::from_nanos(1));
    let because = [first.why.as_str(), first.source].into_iter().filter(|part| !part.is_empty());
    let because: Vec<&str> = because.collect();
    let because = if because.is_empty() { String::new() } else { format!("; {}", because.join(", ")) };
    Found {
        oracle: ORACLE.name,
        title: format!("{profile}: {}", first.cause).into(),
        flow: end.flow,
        host: end.host,
        start: at,
        end: at,
        last: at,
        level: Level::Difference,
        text: format!(
            "Row {} of {} of this end: {}. The model: {}{because}.",
            first.row,
            end.rows.len(),
            first.sent,
            first.expected
        ),
        rows: last_row(recording, end, at).into_iter().collect(),
        count: 1,
    }
}

/// The last row of the event log of an end that is not later than `at`.
fn last_row(recording: &Recording, end: &End, at: Time) -> Option<usize> {
    let (mut row, mut last) = (0, None);
    recording.events.each(|event| {
        if event.flow == Some(end.flow) && event.host == end.host && event.at <= at {
            last = Some(row);
        }
        row += 1;
    });
    last
}
