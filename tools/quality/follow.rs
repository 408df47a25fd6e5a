
/// A case of `drawn`, with the other controllers in turn.
fn drawn_with_any_controller(number: u64) -> Triples {
    const CONTROLLERS: [&str; 8] = ["reno", "cubic", "vegas", "dctcp", "bbr", "bbr3", "cubic", "reno"];
    const MARKS: [(&str, &str); 3] =
        [("stack.ecn", "dctcp"), ("queue.ecn_mark", "data"), ("queue.ecn_threshold", "15KB")];
    let mut triples = drawn(number);
    let name = CONTROLLERS[usize::try_from(number / 6 % 8).expect("a small number")];
    triples.iter_mut().filter(|triple| triple.0 == "stack.cc").for_each(|triple| triple.1 = name);
    if name == "dctcp" {
        triples.retain(|triple| MARKS.iter().all(|mark| mark.0 != triple.0));
        triples.extend(MARKS);
    }
    triples
}

/// Runs cases with each fault of the environment's `TCPASSAY_FAULTS` until `ENOUGH` have other packets than without it, and follows these
/// without the fault. Prints for each fault how many have other packets, and of how many an end has a first difference.
#[test]
fn faults_that_change_packets_are_first_differences() {
    const CASES: u64 = 120;
    const ENOUGH: u32 = 3;
    let faults = std::env::var("TCPASSAY_FAULTS").unwrap_or_default();
    let clean: Vec<_> = (0..CASES)
        .map(|number| {
            let triples = drawn_with_any_controller(number);
            recorded(&triples, number).map(|recording| (triples, recording.packets))
        })
        .collect();
    for fault in faults.split_whitespace() {
        let fault: u32 = fault.parse().expect("a number");
        let (mut changed, mut found) = (0, 0);
        for (number, one) in clean.iter().enumerate() {
            let Some((triples, packets)) = one else { continue };
            tcpassay_units::plant(fault);
            let run = std::panic::catch_unwind(|| recorded(triples, number as u64));
            tcpassay_units::plant(0);
            let Ok(Some(recording)) = run else {
                println!("fault {fault}: the run panics");
                break;
            };
            if recording.packets != *packets {
                changed += 1;
                found += u32::from(ends(&recording).iter().any(|end| follow(end, &exact()).first.is_some()));
            }
            if changed == ENOUGH {
                break;
            }
        }
        println!("fault {fault}: {changed} {found}");
    }
}
