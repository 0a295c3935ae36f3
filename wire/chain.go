package wire

// Chain holds the fields that a message hands on to the messages that it leads to.
type Chain struct {
	Thread string
	Hops   uint64
	Trace  string
}

// Chain returns what the envelope hands on.
func (env *Envelope) Chain() Chain { return Chain{env.Thread, env.Hops, env.Trace} }
