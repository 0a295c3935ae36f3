package channel

import "testing"

// TestFullOutputOfChannels: what was made is there.
func TestFullOutputOfChannels(t *testing.T) {
	t.Setenv("ACP_HOME", "")
	f := newDaemon(t)
	f.SetHTTPAnswers(map[string]string{
		"POST intents":                   `{"id":"intent_1"}`,
		"POST intents/intent_1/channels": `{"id":"chan_1"}`,
		"POST channels/chan_1/messages":  `{"id":"msg_1","sender":"planner","message_type":"notify","status":"sent"}`,
	})
	f.WantDiskFull("the channel was created, and its id is chan_1", "channel", "create", "questions", "--intent", "intent_1")
	f.WantDiskFull("the channel was created, and its id is chan_1", "channel", "create", "questions", "--title", "Research")
	f.WantDiskFull("the message was sent, and its id is msg_1", "channel", "send", "chan_1", "hello")
}
