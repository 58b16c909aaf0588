"""A fitted model as ONNX: safe to load, runs anywhere, no pickle."""

from __future__ import annotations

import warnings

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType

from analyst_server.training.models import FittedModel, Matrix

PARITY_TOLERANCE = 1e-4
"""Largest difference in a class probability: float32 rounding through a few hundred units is 1e-6."""
ERRORS_ALONE = 3
"""What onnxruntime logs: it warns of parts of a model that are there and not used."""
BATCH_ROWS = 8192
"""Rows that are compared at once."""


def export(fitted: FittedModel, latent_dim: int) -> bytes:
    """Return the ONNX file of a fitted model: input ``rep`` (n, l), outputs ``label``, ``probabilities``."""
    fitted.model.prepare_export()
    with warnings.catch_warnings():
        # the converter asks an SVM for an attribute that scikit-learn gives up; we set no `probability`
        warnings.filterwarnings("ignore", "Attribute `prob", FutureWarning)
        proto = to_onnx(
            fitted.pipeline,
            initial_types=[("rep", FloatTensorType([None, latent_dim]))],
            options={"zipmap": False},
        )
    return bytes(proto.SerializeToString())


def parity_gap(fitted: FittedModel, onnx_file: bytes, aligned_rep: Matrix) -> float:
    """Return the largest difference of a class probability between a fitted model and its ONNX file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ALONE
    session = onnxruntime.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])
    gap = 0.0
    for start in range(0, len(aligned_rep), BATCH_ROWS):
        batch = np.asarray(aligned_rep[start : start + BATCH_ROWS], dtype=np.float32)
        (probabilities,) = session.run(["probabilities"], {"rep": batch})
        gap = max(gap, float(np.abs(probabilities - fitted.pipeline.predict_proba(batch)).max()))
    return gap
