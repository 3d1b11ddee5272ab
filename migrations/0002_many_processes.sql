-- What several processes on several machines need: messages for a broker, endpoint health that all of them share, notices for tenants.
-- runs-with: 1

-- Outbox (owner: src/outbox) ----------------------------------------------------------------------------------------

-- One row for each message that a broker has to be given, written in the transaction that makes it necessary, removed once the broker
-- has confirmed it. An ID is a UUIDv7, so that publishers work through it in the order of time; the first message of a delivery has the
-- delivery's own ID. A claim touches no indexed column, so that it stays inside the page (HOT).
CREATE TABLE relayops.outbox_messages (
  outbox_id        uuid PRIMARY KEY,
  delivery_id      uuid NOT NULL,
  endpoint_id      uuid NOT NULL,
  -- 'ready': to be delivered from due_at on. 'dead': for operators, with what they want to know in `context`.
  queue            text NOT NULL DEFAULT 'ready' CHECK (queue IN ('ready', 'dead')),
  due_at           timestamptz NOT NULL DEFAULT now(),
  context          jsonb,
  -- The publisher that has it in hand, and until when; after that any other may take it.
  claimed_by       text,
  claimed_until    timestamptz
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05
);

-- Endpoint health (owner: src/endpoints) ----------------------------------------------------------------------------

-- One row for each endpoint whose last attempt failed; a success removes it. All times are the database's.
CREATE TABLE relayops.endpoint_health (
  endpoint_id      uuid PRIMARY KEY REFERENCES relayops.webhook_endpoints,
  -- Failures in a row, over all processes, and when the first of them was seen.
  failures         integer NOT NULL,
  failing_since    timestamptz NOT NULL,
  -- Set while the breaker is open: nothing is sent before that time, and then one probe.
  open_until       timestamptz,
  -- How often in a row it opened, which is what the pause grows by.
  opened           integer NOT NULL DEFAULT 0,
  -- One process has the probe until then.
  probe_until      timestamptz
);

-- Operational events that are yet to be accepted, written in the transaction of what they tell.
CREATE TABLE relayops.operational_notices (
  notice_id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  tenant_id        uuid NOT NULL REFERENCES relayops.tenants,
  type             text NOT NULL CHECK (type IN ('endpoint.disabled', 'endpoint.recovered', 'delivery.dead')),
  -- The endpoint it is about; it never gets the news of itself.
  endpoint_id      uuid NOT NULL,
  data             jsonb NOT NULL,
  noticed_at       timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX operational_notices_order ON relayops.operational_notices (noticed_at);
