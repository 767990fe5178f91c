-- The limits of one (provider, model), kept for all workers: a pause, a circuit breaker, a bucket
-- of calls and a semaphore. One call of this script is one atomic step on the server's clock.
--
-- KEYS  1 state (hash)   2 leases (sorted set: holder by the time at which it expires)
-- ARGV  1 operation   2 calls a minute, 0 for no limit   3 calls at a time, 0 for no limit
--       4 a lease   5 the first and 6 the longest wait for a provider that is down
--       enter  7 holder
--       leave  7 holder  8 outcome  9 calls made  10 wait that the provider asks for, -1 if none
--              11 why  12 how long it took
--       look   7 how far to look ahead
--       renew  7... holders
-- Returns {answer, wait, why, room}; room is text: how many calls fit, -1 for any number.
-- All times are whole milliseconds.

local FAULTS_IN_A_ROW = 8 -- more than one trial may have, so that none opens the breaker alone
local RECENT = 20
local LONGEST_REFUSED = 900000
local LONGEST_TURN = 15000
local PROBE_RECHECK = 1000
local KEEP = 3600000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local operation, holder = ARGV[1], ARGV[7]
local per_minute, concurrency, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local first_wait, longest_wait = tonumber(ARGV[5]), tonumber(ARGV[6])

local state, changed = {}, {}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  state[stored[i]] = stored[i + 1]
end

local function number(name)
  return tonumber(state[name] or 0)
end

local function set(name, value)
  state[name] = value
  changed[name] = value
end

local function answer(said, wait, why, room)
  local flat = {}
  for name, value in pairs(changed) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  if #flat > 0 then
    redis.call('HSET', KEYS[1], unpack(flat))
    redis.call('PEXPIRE', KEYS[1], KEEP)
  end
  return {said or 'free', math.ceil(wait or 0), why or '', tostring(room or 0)}
end

local function hold(name)
  redis.call('ZADD', KEYS[2], now + lease, name)
  redis.call('PEXPIRE', KEYS[2], KEEP)
end

local function growing(times, longest)
  return math.min(longest, first_wait * 2 ^ math.min(times - 1, 30))
end

-- What keeps everybody from calling: answer, wait and why; nothing when calls may be made.
local function held_up()
  if number('paused_until') > now then
    return 'paused', number('paused_until') - now, state.paused_why
  end
  if number('opened') > 0 then
    if number('open_until') > now then
      return 'open', number('open_until') - now, state.open_why
    end
    if number('probe_until') > now then
      return 'open', math.min(number('probe_until') - now, PROBE_RECHECK), state.open_why
    end
  end
end

-- The bucket holds what a second lets through: vendors enforce a minute's rate in such parts.
local function tokens()
  local burst = math.max(1, per_minute / 60)
  local since = math.max(0, now - tonumber(state.tokens_at or now))
  return math.min(burst, tonumber(state.tokens or burst) + since * per_minute / 60000)
end

local function take(count, left)
  set('tokens', left - count)
  set('tokens_at', now)
end

-- Those who must wait come back one after the other, not all at once.
local function refuse(said, gap, soonest)
  local longest = math.max(LONGEST_TURN, gap)
  local turn = math.max(number('turn'), now + soonest - gap) + gap
  set('turn', math.min(turn, now + longest))
  return answer(said, state.turn - now)
end

local function open(why, longest)
  set('opened', number('opened') + 1)
  set('open_until', now + growing(number('opened'), longest))
  set('open_why', why)
end

local function close()
  set('opened', 0)
  set('recent', '')
end

local function remember(faulty)
  set('recent', string.sub((state.recent or '') .. (faulty and '1' or '0'), -RECENT))
  set('faults', faulty and number('faults') + 1 or 0)
end

local function mostly_faulty()
  local _, count = string.gsub(state.recent, '1', '')
  return number('faults') >= FAULTS_IN_A_ROW or count > RECENT / 2
end

if operation == 'enter' then
  local said, wait, why = held_up()
  if said then
    return answer(said, wait, why)
  end
  if concurrency > 0 then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    if redis.call('ZCARD', KEYS[2]) >= concurrency then
      local gap = math.max(50, (state.took or 1000) / concurrency)
      return refuse('busy', gap, gap)
    end
  end
  if per_minute > 0 then
    local left = tokens()
    local gap = 60000 / per_minute
    if left < 1 then
      return refuse('fast', gap, (1 - left) * gap)
    end
    take(1, left)
  end
  if concurrency > 0 then
    hold(holder)
  end
  if number('opened') == 0 then
    return answer('granted')
  end
  set('probe', holder)
  set('probe_until', now + lease)
  return answer('probe')
end

if operation == 'leave' then
  local outcome, calls, asked, why = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11]
  redis.call('ZREM', KEYS[2], holder)
  if per_minute > 0 and calls > 1 then
    take(calls - 1, tokens())
  end
  if calls > 0 and concurrency > 0 then
    local took = tonumber(ARGV[12])
    set('took', math.ceil(0.8 * (state.took or took) + 0.2 * took))
  end

  -- Calls that began before a pause or an opening, and end within it, tell nothing new.
  if outcome == 'limited' and asked < 0 and number('paused_until') <= now then
    set('limited', number('limited') + 1)
    asked = growing(number('limited'), longest_wait)
  elseif outcome == 'answered' then
    set('limited', 0)
  end
  if asked > 0 and now + asked > number('paused_until') then
    set('paused_until', math.ceil(now + asked))
    set('paused_why', why)
  end

  local probing = state.probe == holder
  if probing then
    set('probe', '')
    set('probe_until', 0)
  end
  if probing or number('opened') == 0 then
    if outcome == 'refused' then
      open(why, LONGEST_REFUSED)
    elseif outcome == 'fault' then
      remember(true)
      if probing or mostly_faulty() then
        open(why, longest_wait)
      end
    elseif outcome ~= 'unasked' then
      if probing then
        close()
      end
      remember(false)
    end
  end
  return answer(held_up())
end

if operation == 'renew' then
  for i = 7, #ARGV do
    if concurrency > 0 then
      hold(ARGV[i])
    end
    if ARGV[i] == state.probe then
      set('probe_until', now + lease)
    end
  end
  return answer('renewed')
end

-- look
local said, wait, why = held_up()
if said then
  return answer(said, wait, why, 0)
end
if number('opened') > 0 then
  return answer('half-open', 0, state.open_why, 1)
end
local ahead, room = tonumber(ARGV[7]), math.huge
if concurrency > 0 then
  local free = concurrency - redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf')
  room = free + (state.took and math.min(1, ahead / math.max(1, state.took)) * concurrency or 0)
end
if per_minute > 0 then
  room = math.min(room, tokens() + ahead * per_minute / 60000)
end
return answer('free', 0, '', room == math.huge and -1 or math.max(0, room))
