"""What a command prints, for people and for machines, and the exit code it ends with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeVar

from protocol.answers import Score
from protocol.busy import TooManyRequestsError
from protocol.errors import InputError, OdcError, ProtocolError, RoundError, StorageError, TrustError
from protocol.limits import MAX_TOKEN_S
from protocol.messages import PrivacyRecord
from protocol.texts import visible
from protocol.tokens import TokenRow
from protocol.tracing import MEMBER, is_request_id

T = TypeVar("T")


class LocalError:
    """Marks an `OdcError` of this machine. No peer is ever sent one, so it names its own exit code."""

    exit_code: ClassVar[int]


class WrongCommandLineError(LocalError, OdcError):
    """A command, an option or a value that there is not, or one that is missing."""

    code = "wrong-command-line"
    title = "The command line is wrong"
    hint = "read what `--help` behind the command says"
    exit_code = 2


_EXIT_CODES: Final[dict[type[OdcError], int]] = {
    InputError: 3,
    ProtocolError: 4,
    TrustError: 5,
    RoundError: 6,
    TooManyRequestsError: 7,
    StorageError: 8,
}


def exit_code(error: OdcError | type[OdcError]) -> int:
    """Return the exit code of a command that ends with this error; docs/cli.md lists them."""
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, LocalError):
        return kind.exit_code
    return next((code for family, code in _EXIT_CODES.items() if issubclass(kind, family)), 1)


def for_terminal(program: str, error: OdcError) -> str:
    """Return what a command prints before it ends: two lines, and one for a request that the analyst refused.

    The words of the other side are quoted.
    """
    detail, hint = printable(error.detail), printable(error.hint)
    if error.is_quoted:
        detail = f"the answer says: {quoted(error.detail)}"
        if error.hint != type(error).hint:
            hint = f"the answer suggests: {quoted(error.hint)}"
    request = _request(error)
    where = f"\n{program}: request: {request}, to be found in the analyst's log" if request else ""
    return f"{program}: error: {detail}\n{program}: hint: {hint}{where}"


def for_machines(error: OdcError) -> str:
    """Return the error as one line of JSON, for who asked for ``--json``."""
    told = {
        "type": error.code,
        "title": error.title,
        "detail": printable(error.detail),
        "hint": printable(error.hint),
        "exit_code": exit_code(error),
        **({MEMBER: request} if (request := _request(error)) else {}),
    }
    return json.dumps({"error": told}, ensure_ascii=False)


def _request(error: OdcError) -> str | None:
    """Return the id that the analyst has given to the request it refused; None if it sent none."""
    found = error.context.get(MEMBER) if error.is_quoted else None
    return found if isinstance(found, str) and is_request_id(found) else None


def printable(text: str) -> str:
    """Return a text from elsewhere with every character replaced that could move a terminal's cursor."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def quoted(text: str) -> str:
    """Return a text from elsewhere in one line and in quotation marks, which it has none of."""
    return '"' + one_line(text).replace('"', "'") + '"'


def one_line(text: str) -> str:
    """Return a text from elsewhere in one line, with what nobody sees spelt out."""
    return " ".join(visible(text).split())


def shown(value: T, *, as_json: bool, people: Callable[[T], str]) -> str:
    """Return what a command prints: JSON for machines, or a text for people."""
    return json.dumps(value, indent=2) if as_json else people(value)


def day(at: int) -> str:
    """Return the date of a Unix time, in UTC."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def plain(number: float) -> str:
    """Return a number with all its digits and no exponent: 365, 0.5."""
    return f"{Decimal(repr(number)).normalize():f}"


def minute(at: int) -> str:
    """Return the date and minute of a Unix time, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def second(at: int) -> str:
    """Return the date and second of a Unix time, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def privacy_in_words(record: PrivacyRecord) -> list[str]:
    """Return what was done to the rows of an institution, one phrase for each step."""
    words = []
    if record.epsilon is not None:
        words.append(
            f"Gaussian noise, epsilon {record.epsilon:g} and delta {record.delta:g} for each row,"
            f" clipped to length {record.clip:g}"
        )
    if record.drop_below is not None:
        words.append(f"rows of which the projection drops less than {record.drop_below:.3g} left out")
    if record.permute_rows:
        words.append("rows permuted")
    if record.perturb_basis is not None:
        words.append(f"basis perturbed by {record.perturb_basis:g}")
    if record.dither is not None:
        words.append(f"noise of {record.dither:g} standard deviations on the projected rows")
    return words


FIGURES: Final = {
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "r2": "R squared",
    "rmse": "RMSE",
    "mae": "MAE",
    "c_index": "C-index",
    "ibs": "integrated Brier score",
}
"""The scores of a model by their names in reports; those of numbers are in the unit of the label column."""
CALIBRATION_FIGURES: Final = {
    "ece": "calibration error",
    "calibration_slope": "calibration slope",
    "calibration_intercept": "calibration intercept",
}
"""How far probabilities of classes can be taken at their word; each is absent or None with too few rows."""
_NO_INTERVAL_OF_R2: Final = 1.999
"""An interval of R squared that is so wide says nothing, and is how the wire says that there is none."""
FAR_APART: Final = 0.8
"""From this gap on, rounds of made-up tables cost some institutions many points (docs/operations.md)."""
_SHARES: Final = ("roc_auc", "pr_auc", "accuracy", "c_index")


def figure(name: str, value: float) -> str:
    """Return a score as people write it: shares in points of a hundred, and others in four digits."""
    if name in CALIBRATION_FIGURES:
        return f"{value:.3f}"
    return f"{100 * value:.1f}" if name in _SHARES else f"{value:.4g}"


def figure_in_words(name: str, found: Mapping[str, float]) -> str:
    """Return a mean score with its 95 % interval."""
    mean, low, high = (figure(name, found[key]) for key in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def figures_in_words(found: Mapping[str, Any]) -> str:
    """Return all mean scores of a report's estimate that this version knows."""
    words = ", ".join(
        f"{words} {figure_in_words(name, found[name])}" for name, words in FIGURES.items() if name in found
    )
    labels = (f"{label} {figure_in_words('roc_auc', one)}" for label, one in found.get("labels", {}).items())
    return "; ROC-AUC of ".join([words, *labels])


def calibration_in_words(found: Mapping[str, Any]) -> str:
    """Return the mean figures of the calibration; empty if an estimate has none."""
    return ", ".join(
        f"{words} {figure_in_words(name, found[name])}"
        for name, words in CALIBRATION_FIGURES.items()
        if found.get(name) is not None
    )


def fewer_numbers(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the parties of a report that send fewer numbers of a row than the model takes, and words for it.

    An analyst of an earlier version tells no number. Parties whose rows are joined are told of elsewhere.
    """
    latent_dim = report["latent_dim"]
    found = [
        (party["party"], party.get("latent_dim"))
        for party in report.get("parties", [])
        if not party.get("joined_with")
    ]
    return [
        (party, f"sends {own:,} numbers of a row, and the model takes {latent_dim:,}")
        for party, own in found
        if own is not None and own < latent_dim
    ]


def joined_rows_in_words(report: Mapping[str, Any]) -> list[str]:
    """Return which parties of a report have their rows joined, and how many rows all of them have."""
    lines = []
    for group in (report.get("results") or {}).get("joined_rows", ()):
        lines.append(
            f"{' and '.join(group['sent'])} have {group['rows']:,} rows in common, which trained the model as"
            f" those of {group['labels']}; they sent "
            + ", ".join(f"{party} {count:,}" for party, count in group["sent"].items())
        )
        if 2 * group["rows"] < min(group["sent"].values()):
            lines.append(
                "warning: that is less than half of the shorter table: if more of them are the same rows, the"
                " row keys are written differently, with zeros in front for example, and only a new round"
                " can join them"
            )
    return lines


def own_maps_in_words(report: Mapping[str, Any]) -> list[str]:
    """Return what a report's figures mean where each party may map its rows by a function of its own."""
    kinds = report.get("own_maps")
    if not kinds:
        return []
    return [
        f"each institution may map its rows by a non-linear function of its own ({', '.join(kinds)}) and need"
        " not tell: distances and angles are of what these maps have in common on the anchor's rows; whether"
        " bases are orthonormal and of one scale was not tested"
    ]


def training_in_words(results: Mapping[str, Any]) -> list[str]:
    """Return how alignment and model were chosen, and what was done to the rows that trained it."""
    lines = []
    gap = results.get("alignment", {}).get("concordance_gap") or 0.0
    if gap >= FAR_APART:
        lines.append(
            f"warning: the directions of the institutions are far apart (gap {gap:.2f}): in rounds like this"
            " joining has cost some of them many points; compare by `odc evaluate` before the model is used."
            " Terms with a larger latent_dim bring them nearer"
        )
    if "of_rows" in results:
        of_all = f"{results['rows']:,} of {results['of_rows']:,} rows"
        lines.append(f"the model was trained on {of_all}, drawn at random: the analyst trains on no more")
    for party, count in results.get("far_rows", {}).items():
        lines.append(f"{party}: {count:,} rows far from all others were brought nearer for the training")
    for what, name in (("alignment", "alignment_choice"), ("model", "choice")):
        if name in results:
            lines += _choice(what, results[name])
    if "groups" in results:
        lines += _groups(results)
    if results.get("converged") is False:
        lines.append(
            "the training ended before it converged: it reached the limit in the terms, and the model may be"
            " better with a higher one"
        )
    return lines


def _groups(results: Mapping[str, Any]) -> list[str]:
    """Return which institutions share a model, and what one model for all would have scored."""
    lines = [
        f"{', '.join(group['parties'])} share a model{f' ({name})' if (name := group.get('model')) else ''}"
        f" that was trained on their {group['rows']:,} rows alone"
        for group in results["groups"]
    ]
    whose = "every other institution has" if lines else "no group has a model of its own: all have"
    lines.append(f"{whose} the model that was trained on all {results['rows']:,} rows")
    judgement = results.get("judgement") or {}
    if judgement.get("within") and (by_one := judgement.get("one_for_all")):
        lines.append(f"one model for all would score {figures_in_words(by_one)}, on the same rows held out")
    return lines


def _choice(what: str, found: Mapping[str, Any]) -> list[str]:
    """Return how one was chosen: one line, and then one for each that was compared."""
    by = f" by the scores of {found['scored_by']}" if "scored_by" in found else ""
    lines = [
        f"the {what} is {found['chosen']}, chosen of {len(found['candidates'])}{by}: {found['rule']};"
        f" compared on: {found['folds']}"
    ]
    metric = FIGURES.get(found["metric"], found["metric"])
    for one in found["candidates"]:
        said = one["why_none"]
        if one["mean"] is not None:
            mean, spread = (figure(found["metric"], one[key]) for key in ("mean", "spread"))
            said = f"{metric} {mean}, spread {spread} over {one['folds']} folds"
            said += "" if one["parameters"] is None else f", {one['parameters']:,} parameters"
        lines.append(f"  {one['name']}: {said}{' (chosen)' if one['name'] == found['chosen'] else ''}")
    return lines


def score_in_words(score: Score) -> str:
    """Return what an institution gained, as far as it can tell."""
    unit, digits, percent, points = (1, 3, "", "") if score["metric"] == "r2" else (100, 1, " %", " points")
    words = f"{FIGURES[score['metric']]} together {unit * score['together']:.{digits}f}{percent}"
    if score["alone"] is not None:
        low, high = score["gain_low"], score["gain_high"]
        interval = "too few rows for an interval"
        if low is not None and high is not None and not _is_all_there_can_be(score["metric"], low, high):
            interval = f"95 % interval {unit * low:+.{digits}f} to {unit * high:+.{digits}f}"
        gain = round(unit * (score["together"] - score["alone"]), digits) + 0.0  # no -0.0
        change = f"gained {gain:+.{digits}f}" if gain >= 0 else f"lost {-gain:.{digits}f}"
        words += f", alone {unit * score['alone']:.{digits}f}{percent}, {change}{points} ({interval})"
    return f"{words}, on {score['rows']:,} rows"


def _is_all_there_can_be(metric: str, low: float, high: float) -> bool:
    """Return whether an interval says, as MemberScore does in docs/protocol.md, that there is none."""
    return high - low >= _NO_INTERVAL_OF_R2 if metric == "r2" else (low, high) == (-1, 1)


def token_lifetime_s(days: int) -> int:
    """Return the seconds for which an API token is to be valid; raises `InputError`."""
    if not 1 <= days <= MAX_TOKEN_S // 86400:
        raise InputError(f"--days must be between 1 and {MAX_TOKEN_S // 86400}, got {days}")
    return days * 86400


def token_lines(rows: Iterable[TokenRow]) -> str:
    """Return API tokens as a person reads them in a list, one line each."""
    return "\n".join(map(_token_line, rows))


def _token_line(row: TokenRow) -> str:
    state = "revoked" if row.revoked else f"until {day(row.expires_at)}"
    used = "never used" if row.last_used_at is None else f"last used {day(row.last_used_at)}"
    where = row.collaboration_id or "all collaborations"
    return f"{row.token_id}  {row.scope:<6}  {state:<16}  {used:<20}  {where}  {row.label}".rstrip()
