"""Distribution: a job has many inputs, and each gets one CSV file. The file is produced from a query, or reused when it
was produced before.

`request` checks the inputs, `work` puts each one's file where it belongs, `report` and `answer` say what came of it.
"""
