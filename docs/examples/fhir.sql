-- One row for each patient of a FHIR R4 bundle: sex, date of birth, the last systolic blood pressure, and whether a
-- condition is type 2 diabetes. For DuckDB; the bundle is bundle.json in the folder where the command runs.
WITH entries AS (
  SELECT unnest(json_extract(json, '$.entry[*].resource')) AS resource
  FROM read_json_objects('bundle.json', format = 'unstructured', maximum_object_size = 1000000000)
),
resources AS (
  SELECT resource, resource ->> '$.resourceType' AS kind, resource ->> '$.subject.reference' AS subject
  FROM entries
),
codings AS (  -- every code of every resource
  SELECT subject, kind, resource, unnest(json_extract_string(resource, '$.code.coding[*].code')) AS code
  FROM resources
)
SELECT
  patient.resource ->> '$.gender' AS sex,
  patient.resource ->> '$.birthDate' AS born,
  (
    SELECT arg_max(
      CAST(resource ->> '$.valueQuantity.value' AS DOUBLE),
      CAST(resource ->> '$.effectiveDateTime' AS VARCHAR)
    )
    FROM codings
    WHERE kind = 'Observation' AND code = '8480-6'  -- LOINC, systolic blood pressure
      AND subject = 'Patient/' || (patient.resource ->> '$.id')
  ) AS systolic,
  CASE WHEN EXISTS (
    SELECT 1
    FROM codings
    WHERE kind = 'Condition' AND code = '44054006'  -- SNOMED CT, type 2 diabetes
      AND subject = 'Patient/' || (patient.resource ->> '$.id')
  ) THEN 'yes' ELSE 'no' END AS diabetes
FROM resources AS patient
WHERE patient.kind = 'Patient'
ORDER BY patient.resource ->> '$.id'
