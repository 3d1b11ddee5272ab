-- Sealed header values, and the canary of the sealing key. It only adds: the version before runs beside it.
-- runs-with: 2

-- Values of an endpoint's own headers, each sealed like a signing secret (base64), by name. A row has its headers here or, when a process of
-- the version before has written it, in `headers`: what is there is newer. The janitor and `secrets reseal` move it.
ALTER TABLE relayops.webhook_endpoints ADD COLUMN sealed_headers jsonb NOT NULL DEFAULT '{}';
-- What is still to be sealed: empty once all is.
CREATE INDEX webhook_endpoints_plain_headers ON relayops.webhook_endpoints (endpoint_id) WHERE headers <> '{}';

-- Owner: src/endpoints. A known text sealed with the key of this installation: a process with another key does not start.
CREATE TABLE relayops.sealing_canary (
  singleton        boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  key_id           text NOT NULL,
  sealed           bytea NOT NULL,
  sealed_at        timestamptz NOT NULL DEFAULT now()
);
