-- Insert a source or update its facts; its id.
INSERT INTO search_source AS s
    (owner_id, kind, object_id, title, agent, project, origin, archived, created_at, updated_at, item_count,
     element_count, version, spoken_length)
VALUES (
    %(owner_id)s, %(kind)s, %(object_id)s, %(title)s, %(agent)s, %(project)s, %(origin)s, %(archived)s, %(created_at)s,
    %(updated_at)s, %(item_count)s, %(element_count)s, %(version)s, 0
)
ON CONFLICT (owner_id, kind, object_id) DO UPDATE SET
    title = EXCLUDED.title,
    agent = EXCLUDED.agent,
    project = EXCLUDED.project,
    origin = EXCLUDED.origin,
    archived = EXCLUDED.archived,
    created_at = EXCLUDED.created_at,
    updated_at = EXCLUDED.updated_at,
    item_count = EXCLUDED.item_count,
    element_count = EXCLUDED.element_count,
    version = EXCLUDED.version
RETURNING s.id
