-- How many tasks of all people were due by then and are in nobody's hands; no more are counted than matter.
SELECT convmemory_waiting_tasks(%(due_by)s, %(at_most)s)
