-- Whether a conversation or document of the owner began within some days.
SELECT EXISTS (
    SELECT FROM search_source WHERE owner_id = %(owner)s AND created_at >= %(first)s AND created_at < %(after_last)s
)
