"""The API's own pages: one page of all endpoints, made from the same description that programs read, and one for each
type of problem. They load nothing from elsewhere."""

import importlib.metadata
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, select_autoescape

from bulk_pipelines.api.problems import MEDIA_TYPE, PROBLEMS, Refusal

router = APIRouter(include_in_schema=False)

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "An error (RFC 9457).",
    "required": ["type", "title", "status", "detail", "remedy"],
    "properties": {
        "type": {"type": "string", "description": "Which problem it is; stable, and the address of its page."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong with this request."},
        "remedy": {"type": "string", "description": "What to do about it."},
        "field": {"type": "string", "description": "The field that is wrong."},
        "errors": {"type": "array", "items": {"type": "object"}, "description": "All that is wrong with the request."},
        "request_id": {"type": "string"},
        "job_id": {"type": "string"},
    },
    "example": {
        "type": "/problems/wrong-state",
        "title": "The state of the job does not allow it",
        "status": 409,
        "detail": "job J20260110_000777 is COMPLETED: it cannot cancel",
        "remedy": "Look at the state of the job first.",
        "request_id": "0b6a2f6c8c1e4d7f9a3b5c7d9e1f2a4b",
    },
}

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": "; ".join(each.title for each in PROBLEMS.values() if each.status == status),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in sorted({each.status for each in PROBLEMS.values()})
}
"""What every endpoint may answer besides what it declares itself."""


def described(app: FastAPI) -> dict[str, Any]:
    """Return the description that programs read, made once for a process."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = PROBLEM_SCHEMA
        app.openapi_schema = made
    return app.openapi_schema


def version() -> str:
    return importlib.metadata.version("bulk-pipelines")


@cache
def templates() -> Environment:
    return Environment(loader=PackageLoader("bulk_pipelines.api", "templates"), autoescape=select_autoescape(["html"]))


@router.get("/docs")
def all_endpoints(request: Request) -> HTMLResponse:
    api = request.app.openapi()
    return HTMLResponse(templates().get_template("docs.html").render(api=api, operations=operations(api)))


@router.get("/problems/{name}")
def problem(name: str) -> HTMLResponse:
    if name not in PROBLEMS:
        raise Refusal("not-found", f"there is no problem {name[:100]!r}")
    page = templates().get_template("problem.html")
    return HTMLResponse(page.render(name=name, problem=PROBLEMS[name]))


def operations(described: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations in the order of their declaration, with what they answer when nothing is wrong."""
    return [
        {
            "method": method.upper(),
            "path": path,
            "anchor": f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
            "good": {code: each for code, each in operation["responses"].items() if code < "400"},
            **operation,
        }
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
