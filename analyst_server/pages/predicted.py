"""What is predicted of a round, as lines for a terminal and as parts of a page."""

from __future__ import annotations

from typing import Final

from analyst_server.pages.elements import paragraph, table
from analyst_server.services.predicting import Phase, Prediction

_NOT_PREDICTED: Final = "not predicted"
_NO_LAWS: Final = "Seconds and memory are predicted for rounds of rows alone."
_DOES: Final = {
    "prepare": "odc prepare, without attacks",
    "send": "odc contribute",
    "take": "taking an uplink",
    "align": "alignment",
    "train": "training, without judging",
}


def predicted_lines(prediction: Prediction | None) -> list[str]:
    """Return the prediction as text, line by line; one line that says so if there is none."""
    if prediction is None:
        return [_NO_LAWS]
    return [
        f"predicted seconds of one core{_for_model(prediction)}: {prediction.rests_on}",
        *(
            f"    {_DOES[phase.name]:<30} {phase.who:<24} {_flops(phase):>16} {duration(phase.seconds):>14}"
            for phase in prediction.phases
        ),
        "predicted memory, at its peak",
        *(f"    {peak.process:<72} {_memory(peak.mebibytes):>14}" for peak in prediction.peaks),
        _on_the_line(prediction),
    ]


def predicted_parts(prediction: Prediction | None) -> list[str]:
    """Return the prediction as parts of a page."""
    if prediction is None:
        return [paragraph(_NO_LAWS, quiet=True)]
    return [
        table(
            f"Seconds of one core{_for_model(prediction)}: {prediction.rests_on}",
            ["what", "who", "counted", "seconds"],
            (
                [_DOES[phase.name], phase.who, _flops(phase), duration(phase.seconds)]
                for phase in prediction.phases
            ),
        ),
        table(
            "Memory",
            ["process", "at its peak"],
            ([peak.process, _memory(peak.mebibytes)] for peak in prediction.peaks),
        ),
        paragraph(_on_the_line(prediction), quiet=True),
    ]


def duration(seconds: float | None) -> str:
    """Return a predicted time with two digits, which is more than it is good for."""
    if seconds is None:
        return _NOT_PREDICTED
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{float(f'{seconds / length:.2g}'):,g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


def _for_model(prediction: Prediction) -> str:
    return "" if prediction.model is None else f" for the model {prediction.model}"


def _flops(phase: Phase) -> str:
    return "" if phase.flops is None else f"{phase.flops:.2g} flops"


def _memory(mebibytes: float | None) -> str:
    return _NOT_PREDICTED if mebibytes is None else f"{mebibytes:,.0f} MiB"


def _on_the_line(prediction: Prediction) -> str:
    return f"An uplink takes {duration(prediction.line_seconds)} on a line of 100 Mbit/s, with nothing lost."
