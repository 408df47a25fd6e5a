"""The settings that separate differing runs from identical ones."""

from tcpassay.compare.separate import Rule, separate


def case(**settings: str) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in settings.items()}


def test_the_trial_of_a_controller_that_ignores_losses() -> None:
    controllers = ("reno", "cubic", "dctcp", "vegas")
    runs = [case(cc=cc, loss=loss, flows=n) for cc in controllers for loss in ("0", "1%") for n in ("1", "4")]
    different = [run for run in runs if run["cc"] == "dctcp" and run["loss"] == "1%"]
    found = separate(different, [run for run in runs if run not in different])
    assert found.shared == {"cc": ["dctcp"], "loss": ["1%"]}
    assert (found.different, found.alike, found.rules) == (2, 2, ())
    assert found.text == "cc=dctcp, loss=1% (2 of 2 runs with that)"


def test_a_shared_setting_that_excludes_no_further_run_is_left_out() -> None:
    identical = [case(cc="reno", ecn="off"), case(cc="reno", ecn="on"), case(cc="cubic", ecn="off")]
    different = [case(cc="dctcp", ecn="on"), case(cc="dctcp", ecn="on")]
    found = separate(different, identical)
    assert found.text == "cc=dctcp (2 of 2 runs with that)"


def test_two_reasons_beside_a_shared_setting_are_two_rules() -> None:
    identical = [case(cc="dctcp", queue="big", loss="0", n=n) for n in "123"]
    identical += [
        case(cc="reno", queue=queue, loss=loss, n="1") for queue in ("big", "small") for loss in ("0", "1%")
    ]
    different = [case(cc="dctcp", queue="small", loss="0", n=n) for n in "123"]
    different += [case(cc="dctcp", queue="big", loss="1%", n=n) for n in "12"]
    found = separate(different, identical)
    assert found.shared == {"cc": ["dctcp"]}
    assert (found.different, found.alike) == (5, 8)
    assert found.rules == (Rule({"queue": "small"}, 3), Rule({"loss": "1%"}, 2))
    assert found.unexplained == 0
    assert found.text == (
        "cc=dctcp (5 of 8 runs with that); of these all with queue=small (3 runs), or with loss=1% (2 runs)"
    )


def test_a_reason_of_two_settings_is_found_and_what_no_rule_covers_is_counted() -> None:
    different = [case(a="1", b="1", c=c) for c in "12"] + [case(a="2", b="2", c="3")]
    identical = [case(a="1", b="2", c="1"), case(a="2", b="1", c="2"), case(a="2", b="2", c="1")]
    identical += [case(a="1", b="2", c="3"), case(a="2", b="1", c="3"), case(a="1", b="2", c="2")]
    found = separate(different, identical)
    assert found.shared == {}
    assert found.rules == (Rule({"a": "1", "b": "1"}, 2),)
    assert found.text == "no parameter value is specific to these runs; all with a=1, b=1 (2 runs); 1 others"


def test_all_runs_and_a_single_run() -> None:
    assert separate([case(cc="reno"), case(cc="cubic")], []).text == "all pairs differ"
    many = [case(a=str(n), b=str(n), c="1", d="2", e="3") for n in range(3)]
    assert separate(many[:1], many[1:]).text == "only one run"
