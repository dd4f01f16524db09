package replication

// Ablate reverts one rule, by name, for the simulation.
func (c *Config) Ablate(rule string) {
	switch rule {
	case "":
	case "liveness gates the merge":
		c.ablate.livenessGates = true
	case "leading-edge refresh":
		c.ablate.leadingEdge = true
	case "skip own writer":
		c.ablate.skipOwnWriter = true
	case "no digests":
		c.ablate.noDigests = true
	case "no skew limit":
		c.ablate.noSkewLimit = true
	case "deadlines travel":
		c.ablate.wallDeadlines = true
	case "holes trigger":
		c.ablate.holesTrigger = true
	case "no have":
		c.ablate.noHave = true
	case "no refused":
		c.ablate.noRefused = true
	case "resend always":
		c.ablate.resendAlways = true
	case "resend the dying":
		c.ablate.resendDying = true
	case "full asks for all":
		c.ablate.fullAsksAll = true
	default:
		panic("no such rule: " + rule)
	}
}

// NarrowAll has every bucket count as large.
func (c *Config) NarrowAll() { c.ablate.narrowAll = true }

// Waiting is how many changes wait to be sent.
func (c *Core) Waiting() int {
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	return c.sink.changes.Len()
}
