"""Orthonormal Data Collaboration for researchers: a whole round in one process, by the code of the product.

What is listed here is stable. `simulate` plays a round and returns what every party has afterwards, as
estimators of scikit-learn; its results are Arrow tables or data frames.

>>> from sklearn.datasets import load_breast_cancer
>>> from orthonormal_data_collaboration import simulate
>>> X, y = load_breast_cancer(return_X_y=True)
>>> parties = {f"hospital-{i}": (X[i::4], y[i::4]) for i in range(3)}
>>> found = simulate(parties, random_state=0)
>>> found["hospital-0"].score(X[3::4], y[3::4]) > 0.9
True
>>> found.to_arrow().select(["party", "rows", "metric"]).to_pylist()[0]
{'party': 'hospital-0', 'rows': 114, 'metric': 'roc_auc'}
"""

try:
    from analyst_server.alignment import InstalledMethodError, Solution, Solve
    from orthonormal_data_collaboration.bases import CONDITIONS, Condition
    from orthonormal_data_collaboration.estimators import (
        MemberClassifier,
        MemberMultiLabelClassifier,
        MemberRegressor,
        MemberSurvival,
    )
    from orthonormal_data_collaboration.simulation import Member, Simulation, simulate
    from protocol.terms import Terms
    from user_client.sdk import (
        Attack,
        DraftedEvent,
        DraftedTerms,
        PrivacyOptions,
        draft_terms,
        draft_terms_from_dictionary,
        with_sums,
    )
except ModuleNotFoundError as error:
    error.add_note("install the package with its extra: [research]")
    raise

__all__ = [
    "CONDITIONS",
    "Attack",
    "Condition",
    "DraftedEvent",
    "DraftedTerms",
    "InstalledMethodError",
    "Member",
    "MemberClassifier",
    "MemberMultiLabelClassifier",
    "MemberRegressor",
    "MemberSurvival",
    "PrivacyOptions",
    "Simulation",
    "Solution",
    "Solve",
    "Terms",
    "draft_terms",
    "draft_terms_from_dictionary",
    "simulate",
    "with_sums",
]
