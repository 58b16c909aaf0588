-- One row for each adult of an OMOP CDM (5.4) database with an inpatient visit: what was known when the first one
-- began, and whether the person died within 30 days. For PostgreSQL; the tables are found by the search path.
WITH first_visit AS (
  SELECT DISTINCT ON (person_id) person_id, visit_start_date
  FROM visit_occurrence
  WHERE visit_concept_id = 9201  -- inpatient visit
  ORDER BY person_id, visit_start_date, visit_occurrence_id
),
last_measured AS (  -- the last value of each kind in the year before
  SELECT DISTINCT ON (m.person_id, m.measurement_concept_id)
    m.person_id, m.measurement_concept_id, m.value_as_number
  FROM measurement AS m
  JOIN first_visit AS v USING (person_id)
  WHERE m.measurement_concept_id IN (3004249, 3016723)
    AND m.value_as_number IS NOT NULL
    AND m.measurement_date BETWEEN v.visit_start_date - 365 AND v.visit_start_date
  ORDER BY m.person_id, m.measurement_concept_id, m.measurement_date DESC, m.measurement_id DESC
)
SELECT
  extract(year FROM v.visit_start_date)::integer - p.year_of_birth AS age,
  CASE p.gender_concept_id WHEN 8507 THEN 'male' WHEN 8532 THEN 'female' END AS sex,
  pressure.value_as_number AS systolic,      -- 3004249, systolic blood pressure
  creatinine.value_as_number AS creatinine,  -- 3016723, creatinine in serum or plasma
  CASE WHEN EXISTS (  -- 201826, type 2 diabetes, and what it includes
    SELECT FROM condition_occurrence AS c
    JOIN concept_ancestor AS a ON a.descendant_concept_id = c.condition_concept_id
    WHERE c.person_id = p.person_id AND a.ancestor_concept_id = 201826
      AND c.condition_start_date <= v.visit_start_date
  ) THEN 'yes' ELSE 'no' END AS diabetes,
  CASE WHEN d.death_date <= v.visit_start_date + 30 THEN 'yes' ELSE 'no' END AS died
FROM person AS p
JOIN first_visit AS v USING (person_id)
LEFT JOIN last_measured AS pressure
  ON pressure.person_id = p.person_id AND pressure.measurement_concept_id = 3004249
LEFT JOIN last_measured AS creatinine
  ON creatinine.person_id = p.person_id AND creatinine.measurement_concept_id = 3016723
LEFT JOIN death AS d ON d.person_id = p.person_id
WHERE extract(year FROM v.visit_start_date) - p.year_of_birth >= 18
ORDER BY p.person_id
