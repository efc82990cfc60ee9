-- name: index_file
-- The default query for the data of one input. BULK_DISTRIBUTION_QUERY can name another query in its place.
SELECT index_key, effective_date, asof_indicator, constituent, weight, close
FROM index_data
WHERE index_key = :index_key AND effective_date = :effective_date AND asof_indicator = :asof_indicator
ORDER BY constituent;
