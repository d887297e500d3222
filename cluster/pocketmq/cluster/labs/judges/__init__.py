"""The judges, one for each lab: `async def judge(court)` raises at the first wrong step."""
