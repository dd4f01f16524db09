package affinity

// Rule names a rule of replication that looks odd and prevents a failure which
// the simulation in package replication finds as soon as the rule is reverted.
type Rule uint8

const (
	// NoRule is the zero Rule.
	NoRule Rule = iota
	// FloorsStay: a newer binding does not remove a floor.
	FloorsStay
	// FloorsAge: hearing of a floor again gives it no fresh life.
	FloorsAge
	// KeptWins: a binding that came during a turn wins without a new version.
	KeptWins
	// ClockLead: observed sequences move the clock at most so far ahead that all accept it.
	ClockLead
	// TargetOrders: of one version with two targets the higher target wins.
	TargetOrders
)
