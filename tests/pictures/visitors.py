"""The users that look at the pages, and the files that are uploaded for them."""

OWNER, NEWCOMER, PASSWORD = "admin", "newcomer", "correct horse"
GUIDE = """# Running the bike counters

## Readings that are missing

A counter that is silent for more than two hours is marked as absent, not as zero: a zero would pull the weekly mean
down. The gap is filled only in charts, never in the table.

| counter | silent for | in the table | in the chart |
|---|--:|---|---|
| Harbour bridge | 3 h | absent | filled |
| North canal | 1 h | as counted | as counted |

```sql
SELECT counter, date_trunc('week', at) AS week, avg(bikes)
FROM readings WHERE NOT absent GROUP BY 1, 2
```

## Weather

Rain of more than two millimetres an hour halves the morning peak. Compare weeks with like weather before you speak of a
trend.
"""
SESSION = [
    {"role": "user", "content": "The nightly export of bike counts is empty since Sunday. Where do I look first?"},
    {
        "role": "assistant",
        "content": "At the time zone of the job: the clocks changed on Sunday, and the query asks for a day of UTC.",
    },
]
