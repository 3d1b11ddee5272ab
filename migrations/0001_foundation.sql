-- The schema of RelayOps: configuration tables, append-only facts, one small hot table. docs/ARCHITECTURE.md says who owns which.

-- Identity (owner: src/tenants) ------------------------------------------------------------------------------------

CREATE TABLE relayops.tenants (
  tenant_id        uuid PRIMARY KEY,
  name             text NOT NULL,
  -- Accepted events per second and burst; NULL takes the configured default.
  ingest_rate      integer CHECK (ingest_rate > 0),
  ingest_burst     integer CHECK (ingest_burst > 0),
  created_at       timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE relayops.user_accounts (
  user_id          uuid PRIMARY KEY,
  tenant_id        uuid NOT NULL REFERENCES relayops.tenants,
  email            text NOT NULL,
  password_hash    text NOT NULL,
  role             text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
  created_at       timestamptz NOT NULL DEFAULT now(),
  disabled_at      timestamptz
);
-- Authentication index only: every other look-up goes through the tenant.
CREATE UNIQUE INDEX user_accounts_email ON relayops.user_accounts (lower(email));
CREATE INDEX user_accounts_tenant ON relayops.user_accounts (tenant_id, user_id);

-- A refresh token is used once; using it again means that it was stolen, and the whole family ends.
CREATE TABLE relayops.refresh_tokens (
  token_hash       bytea PRIMARY KEY,
  family_id        uuid NOT NULL,
  user_id          uuid NOT NULL REFERENCES relayops.user_accounts,
  tenant_id        uuid NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz NOT NULL,
  used_at          timestamptz,
  revoked_at       timestamptz
);
CREATE INDEX refresh_tokens_family ON relayops.refresh_tokens (family_id);
CREATE INDEX refresh_tokens_user ON relayops.refresh_tokens (user_id);

CREATE TABLE relayops.bootstrap_tokens (
  token_hash       bytea PRIMARY KEY,
  note             text NOT NULL DEFAULT '',
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz NOT NULL,
  used_at          timestamptz,
  tenant_id        uuid REFERENCES relayops.tenants
);

CREATE TABLE relayops.api_keys (
  api_key_id       uuid PRIMARY KEY,
  tenant_id        uuid NOT NULL REFERENCES relayops.tenants,
  name             text NOT NULL,
  -- The first characters, shown in lists so that a person can tell keys apart.
  prefix           text NOT NULL,
  key_hash         bytea NOT NULL,
  scopes           text[] NOT NULL,
  created_by       text NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz,
  revoked_at       timestamptz,
  last_used_at     timestamptz
);
-- Authentication index only.
CREATE UNIQUE INDEX api_keys_hash ON relayops.api_keys (key_hash);
CREATE INDEX api_keys_tenant ON relayops.api_keys (tenant_id, api_key_id);

-- Endpoints (owner: src/endpoints) ---------------------------------------------------------------------------------

-- Raised in the transaction that changes anything an event's routing depends on; acceptance compares it.
CREATE TABLE relayops.routing_versions (
  tenant_id        uuid PRIMARY KEY REFERENCES relayops.tenants,
  version          bigint NOT NULL DEFAULT 1
);

CREATE TABLE relayops.webhook_endpoints (
  endpoint_id      uuid PRIMARY KEY,
  tenant_id        uuid NOT NULL REFERENCES relayops.tenants,
  name             text NOT NULL DEFAULT '',
  url              text NOT NULL,
  state            text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'disabled')),
  state_reason     text,
  headers          jsonb NOT NULL DEFAULT '{}',
  -- NULL takes the configured default (delivery.* keys).
  max_concurrency  integer CHECK (max_concurrency > 0),
  rate_per_second  double precision CHECK (rate_per_second > 0),
  rate_burst       integer CHECK (rate_burst > 0),
  timeout_ms       integer CHECK (timeout_ms > 0),
  max_attempts     integer CHECK (max_attempts > 0),
  backoff_base_ms  integer CHECK (backoff_base_ms > 0),
  backoff_factor   double precision CHECK (backoff_factor >= 1),
  backoff_cap_ms   integer CHECK (backoff_cap_ms > 0),
  -- Raised by every change; processes compare it to know that their copy is old.
  version          bigint NOT NULL DEFAULT 1,
  created_at       timestamptz NOT NULL DEFAULT now(),
  updated_at       timestamptz NOT NULL DEFAULT now(),
  deleted_at       timestamptz
);
CREATE INDEX webhook_endpoints_tenant ON relayops.webhook_endpoints (tenant_id, endpoint_id);
-- What the janitor still has to empty.
CREATE INDEX webhook_endpoints_deleted ON relayops.webhook_endpoints (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE relayops.endpoint_secrets (
  secret_id        uuid PRIMARY KEY,
  endpoint_id      uuid NOT NULL REFERENCES relayops.webhook_endpoints,
  -- AES-256-GCM under the key from the environment: 12 bytes nonce, ciphertext, 16 bytes tag.
  ciphertext       bytea NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  -- Set by a rotation: until then both signatures are sent.
  expires_at       timestamptz
);
CREATE INDEX endpoint_secrets_endpoint ON relayops.endpoint_secrets (endpoint_id, created_at);

CREATE TABLE relayops.endpoint_subscriptions (
  subscription_id  uuid PRIMARY KEY,
  endpoint_id      uuid NOT NULL REFERENCES relayops.webhook_endpoints,
  tenant_id        uuid NOT NULL,
  -- An exact type, a prefix followed by ".*", or "*".
  pattern          text NOT NULL,
  -- A CEL expression over event and payload; NULL lets every event of the type through.
  filter           text,
  created_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX endpoint_subscriptions_endpoint ON relayops.endpoint_subscriptions (endpoint_id, subscription_id);
CREATE INDEX endpoint_subscriptions_tenant ON relayops.endpoint_subscriptions (tenant_id, subscription_id);

-- Facts: append-only, one partition a week by the time in the event ID ------------------------------------------------

-- Owner: src/events. Every reader knows the tenant, so that one index serves look-ups and lists.
CREATE TABLE relayops.events (
  tenant_id        uuid NOT NULL,
  event_id         uuid NOT NULL,
  type             text NOT NULL,
  content_type     text NOT NULL,
  -- Exactly the bytes received.
  payload          bytea NOT NULL,
  idempotency_key  text,
  -- How it came in: 'native', 'cloudevents-structured', 'cloudevents-binary', 'test'.
  format           text NOT NULL,
  -- CloudEvents context attributes and the like, delivered as headers.
  attributes       jsonb,
  traceparent      text,
  occurred_at      timestamptz,
  accepted_at      timestamptz NOT NULL DEFAULT now(),
  delivery_count   integer NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
) PARTITION BY RANGE (event_id);

-- Owner: src/events. Outlives the events it points to, so that a late repeat still finds its original.
CREATE TABLE relayops.idempotency_keys (
  tenant_id        uuid NOT NULL,
  key              text NOT NULL,
  event_id         uuid NOT NULL,
  body_hash        bytea NOT NULL,
  expires_at       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, key)
);
-- Rows come in the order of their expiry, so a block range index is enough and costs acceptance next to nothing.
CREATE INDEX idempotency_keys_expiry ON relayops.idempotency_keys USING brin (expires_at) WITH (autosummarize = on);

-- Owner: src/delivery. The identity, and the final state written once when the delivery ends (a replay reopens it). Only
-- unsuccessful_at is indexed, so that ending well is an update inside the page. A delivery ID carries the millisecond of its
-- event's ID, so that a look-up by it is a range of the primary key.
CREATE TABLE relayops.deliveries (
  tenant_id        uuid NOT NULL,
  event_id         uuid NOT NULL,
  endpoint_id      uuid NOT NULL,
  delivery_id      uuid NOT NULL,
  event_type       text NOT NULL,
  -- 'open' while a delivery_work row exists.
  state            text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'succeeded', 'failed', 'dead', 'cancelled')),
  reason           text,
  finished_at      timestamptz,
  unsuccessful_at  timestamptz,
  CHECK ((state = 'open') = (finished_at IS NULL)),
  PRIMARY KEY (tenant_id, event_id, endpoint_id)
) PARTITION BY RANGE (event_id);
CREATE INDEX deliveries_endpoint ON relayops.deliveries (endpoint_id, event_id);
CREATE INDEX deliveries_unsuccessful ON relayops.deliveries (tenant_id, event_id) WHERE unsuccessful_at IS NOT NULL;

-- Owner: src/delivery.
CREATE TABLE relayops.delivery_attempts (
  event_id         uuid NOT NULL,
  delivery_id      uuid NOT NULL,
  attempt_number   integer NOT NULL,
  tenant_id        uuid NOT NULL,
  endpoint_id      uuid NOT NULL,
  -- NULL for an attempt whose worker vanished: it is not known when, or whether, the request was sent.
  started_at       timestamptz,
  duration_ms      double precision,
  outcome          text NOT NULL CHECK (outcome IN ('success', 'retryable', 'rejected', 'gone', 'redirected', 'unknown')),
  http_status      smallint,
  error_code       text,
  error_detail     text,
  response_headers jsonb,
  response_body    bytea,
  next_attempt_at  timestamptz,
  worker           text NOT NULL,
  recorded_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, delivery_id, attempt_number)
) PARTITION BY RANGE (event_id);

-- Owner: src/delivery. What a worker reported after its lease had been given to another: kept, never applied.
CREATE TABLE relayops.late_results (
  event_id         uuid NOT NULL,
  delivery_id      uuid NOT NULL,
  attempt_number   integer NOT NULL,
  tenant_id        uuid NOT NULL,
  outcome          text NOT NULL,
  http_status      smallint,
  error_code       text,
  worker           text NOT NULL,
  observed_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX late_results_delivery ON relayops.late_results (event_id, delivery_id);

-- Owner: src/delivery. Who reopened what, and when.
CREATE TABLE relayops.delivery_replays (
  event_id         uuid NOT NULL,
  delivery_id      uuid NOT NULL,
  tenant_id        uuid NOT NULL,
  job_id           uuid,
  requested_by     text NOT NULL,
  replayed_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX delivery_replays_delivery ON relayops.delivery_replays (event_id, delivery_id);

-- Work (owner: src/delivery) ----------------------------------------------------------------------------------------

-- Fencing tokens. Cached per session: they need to be unique, not dense.
CREATE SEQUENCE relayops.lease_tokens AS bigint CACHE 100;

-- One narrow row per open delivery. A claim touches lease_token, lease_until, leased_by and attempt_no, none of them indexed, so
-- that it stays inside the page (HOT); a row may be claimed when due_at has come and lease_until is null or past.
CREATE TABLE relayops.delivery_work (
  delivery_id      uuid PRIMARY KEY,
  event_id         uuid NOT NULL,
  tenant_id        uuid NOT NULL,
  endpoint_id      uuid NOT NULL,
  due_at           timestamptz NOT NULL,
  lease_token      bigint,
  lease_until      timestamptz,
  leased_by        text,
  -- Number of the running attempt, or of the last one when no lease is held.
  attempt_no       integer NOT NULL DEFAULT 0,
  -- Attempts made before the last replay: they do not count against the limit.
  prior_attempts   integer NOT NULL DEFAULT 0,
  deferrals        integer NOT NULL DEFAULT 0
) WITH (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX delivery_work_due ON relayops.delivery_work (endpoint_id, due_at);

-- Owner: src/delivery. Long work that survives a restart: each step moves the cursor in the transaction that does the step.
CREATE TABLE relayops.replay_jobs (
  job_id           uuid PRIMARY KEY,
  tenant_id        uuid NOT NULL REFERENCES relayops.tenants,
  filter           jsonb NOT NULL,
  state            text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed', 'cancelled', 'failed')),
  total            integer NOT NULL,
  replayed         integer NOT NULL DEFAULT 0,
  cursor_event_id  uuid,
  cursor_endpoint_id uuid,
  requested_by     text NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  finished_at      timestamptz,
  -- Running jobs take turns by it.
  stepped_at       timestamptz,
  -- Steps that went wrong since the last one that did not, and what the last of them said.
  failures         integer NOT NULL DEFAULT 0,
  error            text
);
CREATE INDEX replay_jobs_tenant ON relayops.replay_jobs (tenant_id, job_id);
CREATE INDEX replay_jobs_running ON relayops.replay_jobs (stepped_at NULLS FIRST, job_id) WHERE state = 'running';

-- Partitions --------------------------------------------------------------------------------------------------------

-- The smallest UUIDv7 of a moment: the bound of a partition or of a key range.
CREATE FUNCTION relayops.first_id_at(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Makes the weekly partitions (Monday 00:00 UTC) from the week of `from_moment` to that of `to_moment`, where missing.
-- Callers hold the partition lock (src/delivery/retention.sql.ts). Returns how many were made.
-- A table is made first and attached then, because CREATE TABLE ... PARTITION OF locks the parent against all readers and writers, and
-- ATTACH PARTITION only against other changes of the schema. Its indexes are there already, so that attaching takes them over.
CREATE FUNCTION relayops.ensure_partitions(from_moment timestamptz, to_moment timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  week timestamp := date_trunc('week', from_moment AT TIME ZONE 'UTC');
  parent text;
  child text;
  made integer := 0;
BEGIN
  WHILE week <= (to_moment AT TIME ZONE 'UTC') LOOP
    FOREACH parent IN ARRAY ARRAY['events', 'deliveries', 'delivery_attempts'] LOOP
      child := parent || '_' || to_char(week, 'IYYY"w"IW');
      IF to_regclass('relayops.' || child) IS NULL THEN
        EXECUTE format('CREATE TABLE relayops.%I (LIKE relayops.%I INCLUDING ALL)', child, parent);
        IF parent = 'deliveries' THEN
          EXECUTE format('ALTER TABLE relayops.%I SET (fillfactor = 55)', child);
        END IF;
        EXECUTE format('ALTER TABLE relayops.%I ATTACH PARTITION relayops.%I FOR VALUES FROM (%L) TO (%L)', parent, child,
          relayops.first_id_at(week AT TIME ZONE 'UTC'),
          relayops.first_id_at((week + interval '7 days') AT TIME ZONE 'UTC'));
        made := made + 1;
      END IF;
    END LOOP;
    week := week + interval '7 days';
  END LOOP;
  RETURN made;
END $$;
