"""The pages of the console, one module for each."""

from bulk_pipelines.console.pages import jobs, login

ROUTERS = (login.router, jobs.router)
