"""Files of web servers, as a source that can only be read. `storage` reads them, `guard` lets it reach only public
servers, and only for a time, and `fields` reads the headers."""
