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
  -- Failed attempts in a row, over all processes, and when the first of them was seen.
  failures         integer NOT NULL,
  failing_since    timestamptz NOT NULL,
  -- Those of them that say that the receiver is out of order: time-outs, 5xx, no connection. They open the breaker.
  outages          integer NOT NULL,
  -- Set while the breaker is open: nothing is sent before that time, and then one probe.
  open_until       timestamptz,
  -- How often in a row it opened, which is what the pause grows by.
  opened           integer NOT NULL DEFAULT 0,
  -- One process has the probe until then.
  probe_until      timestamptz
);

-- What a metric counts now and then.
CREATE INDEX webhook_endpoints_waiting ON relayops.webhook_endpoints (state) WHERE state <> 'active' AND deleted_at IS NULL;

-- Whether more outages open a breaker (again): enough in a row for long enough, or the probe after a pause.
CREATE FUNCTION relayops.breaker_opens(h relayops.endpoint_health, more integer, enough integer, min_failing_ms double precision)
RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN more > 0 AND CASE WHEN (h).open_until IS NULL
  THEN (h).outages + more >= enough AND (h).failing_since <= now() - min_failing_ms * interval '1 ms'
  ELSE (h).open_until <= now() END;

-- A moment as it stands in JSON.
CREATE FUNCTION relayops.iso(moment timestamptz) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

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
-- Whether anybody of the tenant wants such a notice: an endpoint other than the one it is about, by a subscription that names the type or its
-- family. '*' does not: it stands for the tenant's own events.
CREATE FUNCTION relayops.wants_notice(of_tenant uuid, notice text, about uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT EXISTS (
    SELECT 1 FROM relayops.endpoint_subscriptions s
    WHERE s.tenant_id = of_tenant AND s.endpoint_id <> about AND s.pattern IN (notice, split_part(notice, '.', 1) || '.*'))
$$;
CREATE INDEX operational_notices_order ON relayops.operational_notices (noticed_at);
