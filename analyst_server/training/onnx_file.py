"""A fitted model as ONNX: safe to load, runs anywhere, no pickle."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnxruntime
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx.algebra.onnx_ops import OnnxAdd, OnnxCos, OnnxMatMul, OnnxMul
from skl2onnx.common.data_types import FloatTensorType
from sklearn.kernel_approximation import RBFSampler

from analyst_server.training.models import FittedModel, Matrix

PARITY_TOLERANCE = 1e-4
"""Largest difference in a class probability: float32 rounding through a few hundred units is 1e-6."""


def export(model: FittedModel, latent_dim: int) -> bytes:
    """Return the model as an ONNX file with input ``rep`` (n, l) and outputs ``label``, ``probabilities``."""
    with warnings.catch_warnings():
        # the converter asks an SVM for an attribute that scikit-learn gives up; we set no `probability`
        warnings.filterwarnings("ignore", "Attribute `prob", FutureWarning)
        proto = to_onnx(
            model.pipeline,
            initial_types=[("rep", FloatTensorType([None, latent_dim]))],
            options={"zipmap": False},
        )
    return bytes(proto.SerializeToString())


def _random_features(scope: Any, operator: Any, container: Any) -> None:
    """Convert random Fourier features: ``sqrt(2 / D) cos(x W + b)``."""
    sampler, version = operator.raw_operator, container.target_opset
    scale = np.array([np.sqrt(2 / sampler.random_offset_.size)], np.float32)
    turned = OnnxMatMul(operator.inputs[0], sampler.random_weights_.astype(np.float32), op_version=version)
    moved = OnnxAdd(turned, sampler.random_offset_.astype(np.float32), op_version=version)
    waves = OnnxCos(moved, op_version=version)
    OnnxMul(waves, scale, op_version=version, output_names=operator.outputs[:1]).add_to(scope, container)


def _random_features_shape(operator: Any) -> None:
    operator.outputs[0].type = FloatTensorType([None, operator.raw_operator.random_offset_.size])


update_registered_converter(RBFSampler, "OdcRandomFeatures", _random_features_shape, _random_features)


def parity_gap(model: FittedModel, onnx_file: bytes, aligned_rep: Matrix, batch_rows: int = 8192) -> float:
    """Return the largest difference of a class probability between the model and its ONNX file."""
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    gap = 0.0
    for start in range(0, len(aligned_rep), batch_rows):
        batch = np.asarray(aligned_rep[start : start + batch_rows], dtype=np.float32)
        (found,) = session.run(["probabilities"], {"rep": batch})
        gap = max(gap, float(np.abs(found - model.pipeline.predict_proba(batch)).max()))
    return gap
