-- The documents whose sources differ from them, and the sources whose documents are gone.
SELECT
    (
        SELECT array_agg(d.id)
        FROM documents_document AS d
        LEFT JOIN search_source AS s ON s.owner_id = d.owner_id AND s.kind = 'document' AND s.object_id = d.id
        WHERE d.version > 0
            AND (s.id IS NULL OR (s.version, s.item_count, s.title) IS DISTINCT FROM (d.version, d.section_count, d.title))
    ),
    (
        SELECT array_agg(s.id)
        FROM search_source AS s
        WHERE s.kind = 'document'
            AND NOT EXISTS (SELECT FROM documents_document AS d WHERE d.id = s.object_id AND d.owner_id = s.owner_id)
    )
