"""Gaussian naive Bayes."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.naive_bayes import GaussianNB

from analyst_server.training.models import Classifier, Labels, Model


@dataclass(frozen=True)
class NaiveBayes(Model):
    """A normal distribution of each latent direction in each class, taken to be independent.

    Attributes
    ----------
    smoothing : float
        Share of the largest variance that is added to all of them.
    """

    smoothing: float = 1e-9

    def classifier(self, labels: Labels, latent_dim: int) -> Classifier:  # noqa: ARG002  # it finds them itself
        return GaussianNB(var_smoothing=self.smoothing)

    def parameters(self, fitted: Classifier) -> int:
        return int(fitted.theta_.size + fitted.var_.size + fitted.class_prior_.size)
