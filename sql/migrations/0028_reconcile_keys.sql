-- Keys that ask references and nothing else. They may stand in an address, for clients that send no headers.
ALTER TABLE api_key DROP CONSTRAINT api_key_scope_is_known;
ALTER TABLE api_key ADD CONSTRAINT api_key_scope_is_known CHECK (scope IN ('reconcile', 'read', 'write', 'admin'));
