-- Google's bill by day and resource, for `gpu-ci cost report --bill`. Run it with
--   bq query --use_legacy_sql=false --format=json --max_rows=10000000 < bill.sql > bill.json
-- Without --max_rows, bq prints 100 rows. Amounts are in USD.
WITH once AS (
  -- A row that was exported twice counts once. A late row counts on the day of its usage, whatever its invoice month.
  SELECT * FROM `{table}` AS bill
  WHERE {where}
  QUALIFY ROW_NUMBER() OVER (PARTITION BY TO_JSON_STRING(bill)) = 1
),
lines AS (
  SELECT
    DATE(usage_start_time) AS day,
    service.description AS service,
    cost_type,
    -- Only regular rows belong to a machine: tax, adjustments and rounding errors are shared.
    IF(cost_type = 'regular', REGEXP_EXTRACT(resource.global_name, r'/instances/([0-9]+)$'), NULL) AS instance_id,
    IF(cost_type = 'regular', REGEXP_EXTRACT(resource.global_name, r'/disks?/([0-9]+)$'), NULL) AS disk_id,
    resource.name AS resource_name,
    UNIX_SECONDS(usage_start_time) AS begin_sec,
    UNIX_SECONDS(usage_end_time) AS end_sec,
    IFNULL(NULLIF(currency_conversion_rate, 0), 1) AS rate,
    cost,
    IFNULL((SELECT SUM(c.amount) FROM UNNEST(credits) AS c WHERE c.type != 'PROMOTION'), 0) AS discounts,
    IFNULL((SELECT SUM(c.amount) FROM UNNEST(credits) AS c WHERE c.type = 'PROMOTION'), 0) AS promotions
  FROM once
)
SELECT
  day,
  service,
  cost_type,
  instance_id,
  disk_id,
  -- A boot disk has the name of its machine.
  IF(disk_id IS NULL, NULL, resource_name) AS disk_name,
  MIN(begin_sec) AS begin_sec,
  MAX(end_sec) AS end_sec,
  SUM(cost / rate) AS cost,
  SUM(discounts / rate) AS discounts,
  SUM(promotions / rate) AS promotions
FROM lines
GROUP BY day, service, cost_type, instance_id, disk_id, disk_name
ORDER BY day, service, cost_type, instance_id, disk_id
