import { defineScript } from '../../platform/redis/script.ts';

/**
 * Every script is one atomic step, goes by Redis' own clock, and touches keys of one hash tag only. All keys expire by themselves.
 *
 * Slots of an endpoint are one hash: process → "count:endsAtMs:sequence". A process' slots end with its lease. The sequence number is that
 * of the process' last word on this endpoint: a command that comes late (sent again after a redirection, or left over from a connection that
 * was lost) says what is no longer so, and changes nothing.
 *
 * A token bucket is one string, "tokens:atMs", gone when it would be full. Its level is that of ../token-bucket.ts, but for a clock that
 * was set back: Redis has no other, so the bucket goes on from there.
 */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
`;

const BUCKET = `
local function level(key, rate, burst)
  local tokens, at = string.match(redis.call('GET', key) or '', '^(.+):(.+)$')
  if not tokens then return burst end
  return math.min(burst, tonumber(tokens) + math.max(0, now - at) * rate / 1000)
end

local function store(key, tokens, rate, burst)
  if tokens >= burst then return redis.call('DEL', key) end
  local fullInMs = math.min(1e12, math.ceil((burst - tokens) * 1000 / rate) + 1)
  redis.call('SET', key, string.format('%.17g:%.3f', tokens, now), 'PX', string.format('%.0f', fullInMs))
end

local function msUntil(n, tokens, rate)
  return math.max(0, math.min(1e12, math.ceil((n - tokens) * 1000 / rate)))
end
`;

const SLOTS = `
local function keep(key, process, count, sequence, leaseMs)
  if count <= 0 then return redis.call('HDEL', key, process) end
  redis.call('HSET', key, process, string.format('%d:%.0f:%d', count, now + leaseMs, sequence))
  if redis.call('PTTL', key) < leaseMs then redis.call('PEXPIRE', key, leaseMs) end
end

local function parse(field)
  local count, ends, sequence = string.match(field, '^(%d+):(%d+):(%d+)$')
  return tonumber(count), tonumber(ends), tonumber(sequence)
end
`;

/**
 * Takes up to \`wanted\` slots, and as many tokens, for a process that says how many it holds already. With \`wanted\` 0 it only says so.
 * KEYS slots, bucket; ARGV process, sequence, mine, wanted, max, leaseMs, rate or '', burst. Answers {granted, ms until a token or -1}.
 */
export const ACQUIRE = defineScript(`${NOW}${BUCKET}${SLOTS}
local process, sequence, mine = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local fields = redis.call('HGETALL', KEYS[1])
local others = 0
for i = 1, #fields, 2 do
  local count, ends, last = parse(fields[i + 1])
  if fields[i] == process then
    if last and last > sequence then return {0, -1} end
  elseif not ends or ends <= now then
    redis.call('HDEL', KEYS[1], fields[i])
  else
    others = others + count
  end
end
local granted = math.max(0, math.min(tonumber(ARGV[4]), tonumber(ARGV[5]) - others - mine))
local retryAfterMs = -1
if granted > 0 and ARGV[7] ~= '' then
  local rate, burst = tonumber(ARGV[7]), tonumber(ARGV[8])
  local tokens = level(KEYS[2], rate, burst)
  local taken = math.max(0, math.min(granted, math.floor(tokens)))
  if taken > 0 then store(KEYS[2], tokens - taken, rate, burst) end
  if taken < granted then retryAfterMs = msUntil(1, tokens - taken, rate) end
  granted = taken
end
keep(KEYS[1], process, mine + granted, sequence, tonumber(ARGV[6]))
return {granted, retryAfterMs}
`);

/**
 * Gives slots back, and tokens that were not used.
 * KEYS slots, bucket; ARGV process, sequence, slots, leaseMs, tokens, rate or '', burst.
 */
export const RELEASE = defineScript(`${NOW}${BUCKET}${SLOTS}
local process, sequence = ARGV[1], tonumber(ARGV[2])
local field = redis.call('HGET', KEYS[1], process)
if field then
  local count, _, last = parse(field)
  if last and last < sequence then keep(KEYS[1], process, count - ARGV[3], sequence, tonumber(ARGV[4])) end
end
if tonumber(ARGV[5]) > 0 and ARGV[6] ~= '' then
  local rate, burst = tonumber(ARGV[6]), tonumber(ARGV[7])
  store(KEYS[2], math.min(burst, level(KEYS[2], rate, burst) + ARGV[5]), rate, burst)
end
`);

/** Takes tokens whether they are there or not; the debt is the burst at most. KEYS bucket; ARGV rate, burst, n. */
export const CHARGE = defineScript(`${NOW}${BUCKET}
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
store(KEYS[1], math.max(-burst, level(KEYS[1], rate, burst) - tonumber(ARGV[3])), rate, burst)
return 1`);

/**
 * Takes tokens for several takers in turn, each all or none, and then some ahead, if they are there. KEYS bucket; ARGV rate, burst, how many ahead, n of
 * each. Answers how many were taken ahead, and for each taker -1, or the ms until so many are there.
 */
export const TAKE = defineScript(`${NOW}${BUCKET}
local rate, burst, ahead = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = level(KEYS[1], rate, burst)
local tokens = full
local answers = {0}
for i = 4, #ARGV do
  local n = tonumber(ARGV[i])
  if tokens < n then
    answers[i - 2] = msUntil(n, tokens, rate)
  else
    tokens = tokens - n
    answers[i - 2] = -1
  end
end
answers[1] = math.max(0, math.min(ahead, math.floor(tokens)))
tokens = tokens - answers[1]
if tokens < full then store(KEYS[1], tokens, rate, burst) end
return answers
`);

/** Says that a process is there for a lease (or, with 0, no longer). KEYS members; ARGV process, leaseMs. Answers how many there are. */
export const JOIN = defineScript(`${NOW}
local leaseMs = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now + leaseMs), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if redis.call('PTTL', KEYS[1]) < leaseMs then redis.call('PEXPIRE', KEYS[1], leaseMs) end
return redis.call('ZCARD', KEYS[1])
`);
