"""What the same institutions would have sent by federated averaging, for a round that was held."""

from __future__ import annotations

from analyst_server.pages.chart import break_even_chart
from analyst_server.pages.elements import heading, paragraph
from analyst_server.services.planning import Scenario, plan
from analyst_server.services.report_answers import Report


def compared_with_averaging(report: Report) -> list[str]:
    """Return the break-even plot of a round of rows whose model is known; nothing of another."""
    results, rows = report["results"], [party["rows"] for party in report["parties"]]
    sent = [count for count in rows if count]
    if report["uplink"] != "rows" or not results or not results.get("model_parameters") or not sent:
        return []
    try:
        scenario = Scenario(
            parties=len(sent),
            rows=round(sum(sent) / len(sent)),
            anchor_rows=report["anchor"]["rows"],
            features=report["features"],
            latent_dim=report["latent_dim"],
            model_parameters=results["model_parameters"],
            anchor_kind=report["anchor"]["kind"],
        )
        found = plan(scenario)
    except ValueError:  # a round that no plan is made for
        return []
    return [
        heading("Beside federated averaging"),
        break_even_chart(found),
        paragraph(
            "Of the same institutions with as many rows in the mean, and of a model with as many parameters:"
            f" {results['model_parameters']:,}. Ours is what a plan expects in the bodies of our messages.",
            quiet=True,
        ),
    ]
