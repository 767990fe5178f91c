"""Use cases: submit, claim and judge, finish, pump, read, summarise."""
