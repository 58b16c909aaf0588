"""The queries of docs/examples on small data: an OMOP CDM database, and a FHIR bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.postgresql import PASSWORD, postgresql
from tests.harness.tree import REPOSITORY
from user_client.tables import Source, read_table

EXAMPLES = REPOSITORY / "docs" / "examples"
OMOP = """
CREATE TABLE person (person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER, year_of_birth INTEGER);
CREATE TABLE visit_occurrence (
  visit_occurrence_id INTEGER, person_id INTEGER, visit_concept_id INTEGER, visit_start_date DATE);
CREATE TABLE condition_occurrence (
  person_id INTEGER, condition_concept_id INTEGER, condition_start_date DATE);
CREATE TABLE concept_ancestor (ancestor_concept_id INTEGER, descendant_concept_id INTEGER);
CREATE TABLE measurement (
  measurement_id INTEGER, person_id INTEGER, measurement_concept_id INTEGER, measurement_date DATE,
  value_as_number NUMERIC);
CREATE TABLE death (person_id INTEGER, death_date DATE);
INSERT INTO person VALUES (1, 8507, 1950), (2, 8532, 1980), (3, 8507, 2010), (4, 8532, 1960), (5, 0, 1970);
INSERT INTO visit_occurrence VALUES
  (10, 1, 9201, '2020-03-01'), (11, 1, 9201, '2021-01-01'), (12, 2, 9201, '2020-05-05'),
  (13, 3, 9201, '2020-05-05'), (14, 4, 9202, '2020-05-05'), (15, 5, 9201, '2020-06-01');
INSERT INTO concept_ancestor VALUES (201826, 201826), (201826, 443732);
INSERT INTO condition_occurrence VALUES (1, 443732, '2019-01-01'), (2, 201826, '2020-05-06');
INSERT INTO measurement VALUES
  (1, 1, 3004249, '2019-12-01', 150), (2, 1, 3004249, '2020-02-01', 140.5), (3, 1, 3004249, '2020-03-02', 99),
  (4, 1, 3016723, '2018-01-01', 1.1), (5, 2, 3016723, '2020-05-05', 0.9), (6, 2, 3016723, '2020-05-05', NULL);
INSERT INTO death VALUES (1, '2021-01-02'), (2, '2020-06-04');
"""


def test_the_query_of_an_omop_database_has_one_row_for_each_adult(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with postgresql() as server:
        server.psql(OMOP)
        found = read_table(Source(server.url, query=(EXAMPLES / "omop.sql").read_text())).to_pydict()
    assert found == {
        "age": [70, 40, 50],
        "sex": ["male", "female", None],
        "systolic": ["140.5", None, None],
        "creatinine": [None, "0.9", None],
        "diabetes": ["yes", "no", "no"],
        "died": ["no", "yes", "no"],
    }


def observation(patient: str, day: str, value: float, code: str = "8480-6") -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": day,
        "valueQuantity": {"value": value, "unit": "mmHg"},
    }


BUNDLE = [
    {"resourceType": "Patient", "id": "b", "gender": "female", "birthDate": "1961-07-02"},
    {"resourceType": "Patient", "id": "a", "gender": "male", "birthDate": "1950-01-31"},
    {"resourceType": "Patient", "id": "c", "gender": "unknown"},
    observation("a", "2024-02-01", 141.5),
    observation("a", "2024-01-01", 150),
    observation("a", "2024-03-01", 80, "8462-4"),
    observation("b", "2024-01-01", 120),
    {
        "resourceType": "Condition",
        "subject": {"reference": "Patient/b"},
        "code": {
            "coding": [
                {"system": "http://hl7.org/fhir/sid/icd-10", "code": "E11"},
                {"system": "http://snomed.info/sct", "code": "44054006"},
            ]
        },
    },
]


def test_the_query_of_a_fhir_bundle_has_one_row_for_each_patient(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    bundle = {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [{"resource": each} for each in BUNDLE],
    }
    (tmp_path / "bundle.json").write_text(json.dumps(bundle, indent=2))
    found = read_table(Source("duckdb:", query=(EXAMPLES / "fhir.sql").read_text())).to_pydict()
    assert found == {
        "sex": ["male", "female", "unknown"],
        "born": ["1950-01-31", "1961-07-02", None],
        "systolic": [141.5, 120.0, None],
        "diabetes": ["no", "yes", "no"],
    }
