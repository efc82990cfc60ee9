from bulk_pipelines_tests.integration.imports.conftest import importer

__all__ = ["importer"]
