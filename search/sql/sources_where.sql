-- The owner's sources that meet a condition.
SELECT id FROM search_source WHERE owner_id = %(owner)s AND ({condition})
