-- Whether both roles of the program exist.
SELECT to_regrole('convmemory_app') IS NOT NULL AND to_regrole('convmemory_maintenance') IS NOT NULL
