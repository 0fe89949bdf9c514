-- Whether the item of a vector meets a condition on its lexical document.
EXISTS (
    SELECT FROM search_item AS d
    WHERE d.source_id = e.source_id AND d.number = e.item_number AND {condition}
)
