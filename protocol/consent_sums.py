"""What people sign under terms of sums: what leaves, what comes back, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.sums import SumsTerms, is_by_class, order_of, sent_numbers
from protocol.sums_noise import SumsNoise
from protocol.terms import Terms
from protocol.texts import decimal_text


def what_is_summed(terms: Terms, sums: SumsTerms) -> Iterator[str]:
    yield "This institution sends to the analyst, once, no row and no label, but sums over all its rows:"
    features = f"the {terms.table_schema.width} encoded features of a row"
    if sums.random_features and sums.kernel_width is not None:
        features += (
            f" and {sums.random_features} random functions of them (kernel width"
            f" {decimal_text(sums.kernel_width)})"
        )
    label, sent = terms.table_schema.label_column, sent_numbers(terms)
    if is_by_class(terms):
        yield (
            f"- for each of the {label.outputs} classes, with a row's 1 and {features},"
            f" {1 + terms.latent_dim} numbers in all, the sum of the product of each two over the rows of the"
            f" class: {sent} numbers ({8 * sent} bytes), however many rows there are."
        )
    else:
        yield (
            f"- with a row's 1, {features} and its label, {order_of(terms.latent_dim, label)} numbers in all,"
            f" the sum of the product of each two: {sent} numbers ({8 * sent} bytes), however many rows there"
            " are."
        )
    yield (
        "The features are turned by a matrix that the institutions share and the analyst does not receive."
        " Each sum is masked: random numbers are added that cancel in the total over all institutions and in"
        " no other sum. The analyst learns the total, with it the number of all rows, and nothing else."
    )
    if sums.noise is not None:
        yield from _noise_of_sums(sums.noise)
    few = f"fewer than {sums.min_rows} rows"
    if is_by_class(terms):
        few += ", of a class too unless it has none of it"
    yield (
        f"An institution with {few}, or more than {sums.max_rows}, does not send."
        " Without the sums of every institution there is no total, and the round ends without a model."
    )


def _noise_of_sums(noise: SumsNoise) -> Iterator[str]:
    epsilon, delta = decimal_text(noise.epsilon), decimal_text(noise.delta)
    others = "" if noise.colluding == 0 else f" with up to {noise.colluding} of the institutions"
    yield (
        "Each institution adds a share of random noise to its sums, which does not cancel. The total, and the"
        f" model with it, is differentially private with epsilon {epsilon} and delta {delta}: one row and its"
        f" label more or less makes no total more than exp({epsilon}) times as likely, but for a chance of"
        f" {delta}. That holds against the analyst{others}. A feature vector longer than"
        f" {decimal_text(noise.clip)} is scaled down to that length."
    )


def what_comes_of_the_total(terms: Terms, sums: SumsTerms) -> Iterator[str]:
    model = "ridge: least squares with a penalty"
    if is_by_class(terms):
        model = "quadratic-discriminant: the mean and the covariance of each class"
    yield (
        f"The analyst sends back: one model for all institutions ({model}, computed from the total), in the"
        " turned features."
    )
    if is_by_class(terms):
        yield (
            "Each institution can turn the model back and reads from it, for each class, over the rows of all"
            " institutions, the mean and the spread of every feature, and how each two of them go together."
        )
    if sums.cohort:
        yield (
            "It also sends the total to every institution. Each can turn it back and reads from it, over the"
            " rows of all institutions, the mean and the spread of every feature and of the label, and how"
            " each two of them go together."
        )
    yield (
        "Who sees what: the analyst sees the total, and that this institution has sent. Other institutions"
        f" see the model,{' the total' if sums.cohort else ''} and the number of all rows."
    )


def warnings_of_sums(terms: Terms, sums: SumsTerms) -> Iterator[str]:
    if sums.cohort or is_by_class(terms):
        yield (
            "what a total tells: each institution can take its own sums from the total, and then knows those"
            " of all others together; all institutions but one together know those of the one that is left."
            " A total over few rows tells much about each of them. The analyst and one member together know"
            " the total of the features as they are."
        )
    else:
        yield (
            "what a total tells: if all institutions but one put their own sums together with the analyst's"
            " total, they know the sums of the one that is left. A total over few rows tells much about each"
            " of them. The analyst and one member together know the total of the features as they are."
        )
    if sums.noise is None:
        yield "no differential privacy: no noise is added to the sums."
    elif terms.returns_scores:
        yield (
            "scores without noise: what an institution measures on the rows that it keeps back is not part"
            " of what epsilon covers."
        )
    yield (
        "masks: they rest on X25519 and on the seed that the lead creates. Who has recorded the sums, can"
        " break X25519 one day and has the seed of a member can take the masks off."
    )
