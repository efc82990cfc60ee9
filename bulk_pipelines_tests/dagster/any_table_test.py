"""A table that was never declared, by the command line: imported, adopted, compared and exported."""

from pathlib import Path

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes import shop
