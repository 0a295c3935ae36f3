package openintent

// recentBytes bounds the messages that are kept in memory, all channels
// together. Others are read from the store.
const recentBytes = 8 << 20

// cacheMessage keeps a message in memory, and drops the oldest ones beyond recentBytes.
func (f *feed) cacheMessage(m *message) {
	ch := m.ch
	for len(ch.recent) > 0 && !ch.recent[0].isStillListed(m.at) {
		ch.dropOldestRecent()
	}
	ch.recent = append(ch.recent, m)
	f.memory = append(f.memory, m)
	for f.bytes += m.size(); f.bytes > recentBytes; {
		old := f.memory[0]
		f.memory[0] = nil
		f.memory = f.memory[1:]
		f.bytes -= old.size()
		if c := old.ch; len(c.recent) > 0 && c.recent[0] == old {
			c.dropOldestRecent()
			c.dropped = m.at
		}
	}
}

// uncacheMessage drops the message that was remembered last.
func (f *feed) uncacheMessage(m *message) {
	if n := len(f.memory); n > 0 && f.memory[n-1] == m {
		f.memory[n-1] = nil
		f.memory = f.memory[:n-1]
		f.bytes -= m.size()
	}
	ch := m.ch
	if n := len(ch.recent); n > 0 && ch.recent[n-1] == m {
		ch.recent[n-1] = nil
		ch.recent = ch.recent[:n-1]
	}
}

// dropOldestRecent drops the channel's oldest message from memory.
func (ch *channelRecord) dropOldestRecent() {
	ch.recent[0] = nil
	ch.recent = ch.recent[1:]
}

// findRecentMessage returns the message with that number, if it is in memory.
func (ch *channelRecord) findRecentMessage(number int64) *message {
	if len(ch.recent) == 0 {
		return nil
	}
	i := number - ch.recent[0].number
	if i < 0 || i >= int64(len(ch.recent)) {
		return nil
	}
	return ch.recent[i]
}
