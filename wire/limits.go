package wire

// Limits of the format. A receiver refuses what passes them.
const (
	Version = 1 // the envelope's v

	maxItem     = 16 << 10 // bytes of one control item
	MaxLabel    = 64       // bytes of agent, from_agent, thread, kind, name and software, and of one address in paths
	MaxTrace    = 256      // bytes of trace
	MaxDepth    = 64       // nesting of a payload
	MaxHops     = 16       // a chain of messages longer than this is a loop
	maxFeatures = 16       // entries of hello.features
	MaxPaths    = 8        // addresses in one item of paths
)
