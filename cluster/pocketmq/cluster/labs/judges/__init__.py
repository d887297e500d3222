"""The judges, one for each lab: `async def judge(trial)` raises at the first wrong step."""
