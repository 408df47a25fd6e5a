"""Prints how far a profile follows the ends of a capture."""

from collections import Counter, defaultdict

from rich.console import Console
from rich.markup import escape

from tcpassay.captured.analyse import Limits
from tcpassay.captured.followed import FEW, SEVERAL, End, First, FollowedCapture
from tcpassay.captured.identify import Answer, Identified
from tcpassay.plural import plural

MOST = 20
"""Ends that are printed in full."""
MOST_NAMES = 3
"""Ends that `identify` names."""


def show(made: FollowedCapture, name: str, limits: Limits, console: Console) -> int:
    """Prints the first differences, then how far the other ends were followed. Returns the number of differences."""
    for note in made.notes(limits):
        console.print(f"note: {escape(note)}", style="yellow", highlight=False)
    done = [(end, end.profiles[name]) for end in made.ends]
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for end, outcome in done:
        if outcome.stop is not None and outcome.is_refused:
            refused[outcome.stop.why].append(end.name)
    for why, names in refused.items():
        some = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        console.print(f"not followed: {escape(some)}: {escape(why)}", style="yellow", highlight=False)
    followed = [(end, outcome) for end, outcome in done if not outcome.is_refused]
    differing = [(end, outcome.first) for end, outcome in followed if outcome.first is not None]
    for end, first in differing[:MOST]:
        _difference(end, first, name, console)
    if len(differing) > MOST:
        console.print(f"... and {len(differing) - MOST} more\n", highlight=False)
    for end in [end for end, outcome in followed if outcome.first is None][:MOST]:
        _followed(end, name, console)
    wrong = [end for end, first in differing if end.profiles[name].acks + end.profiles[name].carriers < FEW]
    if differing and len(wrong) == len(followed):
        ends = "end differs" if len(wrong) == 1 else "ends differ"
        said = f"{name} follows little of this capture: {len(wrong)} {ends} after fewer than {FEW} judged segments"
        tells = (
            "it is the wrong profile"
            if len(wrong) >= SEVERAL
            else f"{SEVERAL} ends would show a wrong profile"
        )
        console.print(
            f"note: {escape(f'{said}; {tells}')}: `tcpassay identify` ranks them",
            style="yellow",
            highlight=False,
        )
    colour = "red" if differing else "green" if followed else "yellow"
    whole = sum(outcome.whole for _, outcome in followed)
    console.print(
        f"[{colour}]{plural(len(differing), 'difference')} from {escape(name)}[/]; "
        f"{plural(len(followed), 'end')} followed, {whole} to the end of the capture",
        highlight=False,
    )
    return len(differing)


def _difference(end: End, first: First, name: str, console: Console) -> None:
    outcome = end.profiles[name]
    console.print(f"[red]differs from {escape(name)}[/] [bold]{escape(first.cause)}[/]", highlight=False)
    when = f"frame {first.frame} at {first.time_ns / 1e9:.6f} s"
    where = f"  {end.name}, {when}, after {outcome.followed} of {outcome.packets} packets"
    console.print(escape(where), style="dim", highlight=False, soft_wrap=True)
    prompt = f"  at once is within {end.acts_within_ns / 1e6:g} ms at this end (`--within MS`)"
    console.print(escape(prompt), style="dim", highlight=False, soft_wrap=True)
    console.print(f"  sent:  {escape(first.sent)}", highlight=False, soft_wrap=True)
    console.print(f"  model: {escape(first.expected)}", highlight=False, soft_wrap=True)
    if reason := ", ".join(part for part in (first.why, first.source) if part):
        console.print(f"  why:   {escape(reason)}", highlight=False, soft_wrap=True)
    console.print()


def _ends_are(count: int, how: str) -> str:
    return f"{plural(count, 'end')} {'is' if count == 1 else 'are'} {how}"


def _followed(end: End, name: str, console: Console) -> None:
    outcome = end.profiles[name]
    how = "to the end" if outcome.stop is None else f"up to frame {outcome.stop.frame}: {outcome.stop.why}"
    judged = f"{plural(outcome.acks, 'ACK')} and {plural(outcome.carriers, 'segment')} with data judged"
    if outcome.setting:
        judged += f", with {outcome.setting}"
    said = f"followed: {end.name}: {outcome.followed} of {outcome.packets} packets, {judged}, {how}"
    console.print(escape(said), highlight=False)


def identified(one: Identified, made: FollowedCapture, console: Console) -> None:
    """Prints the profiles, the one that follows furthest first, how far, and the answer."""
    for ranked in one.ranked:
        share = f"{100 * ranked.share:.1f} %"
        differs = f"differs in {ranked.differing} of {plural(ranked.ends, 'end')}"
        said = f"{ranked.profile:<13} {differs}, follows {share} of the packets"
        console.print(escape(said), highlight=False)
    best = one.ranked[0].profile
    outcomes = [(end, end.profiles[best]) for end in made.ends if not end.is_refused]
    if outcomes:
        names = [end.name for end, _ in outcomes]
        others = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        console.print(escape(f"ends: {', '.join(names[:MOST_NAMES])}{others}"), highlight=False)
    tried = [outcome for _, outcome in outcomes] or [end.profiles[best] for end in made.ends]
    stops = Counter(one.stop.why for one in tried if one.first is None and one.stop)
    how = "followed up to this" if outcomes else "not followed"
    for why, count in stops.most_common():
        console.print(escape(f"{_ends_are(count, how)}: {why}"), style="dim", highlight=False)
    answers = " or ".join(one.names)
    answer = answers if one.answer is Answer.FITS else str(one.answer)
    colour = "green" if one.answer is Answer.FITS else "yellow"
    console.print(f"[{colour}]{escape(answer)}[/]: {escape(one.why)}", highlight=False)
    if one.answer is Answer.NONE and one.ranked[0].differing:
        console.print(f"What differs first: `tcpassay judge FILE --as {escape(best)}`", highlight=False)
