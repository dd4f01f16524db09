package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// makeTransportSocket returns nil for plaintext.
func makeTransportSocket(t *TLS) (*corev3.TransportSocket, error) {
	if t == nil {
		return nil, nil
	}
	common := &tlsv3.CommonTlsContext{AlpnProtocols: []string{"h2"}} // grpc-go refuses connections without it
	if t.CertFile != "" {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: makeFile(t.CertFile), PrivateKey: makeFile(t.KeyFile)}}
	}
	if t.CAFile != "" {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: makeValidation(t)}
	}
	packed, err := makeAny(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.ServerName})
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed},
	}, nil
}

func makeValidation(t *TLS) *tlsv3.CertificateValidationContext {
	v := &tlsv3.CertificateValidationContext{TrustedCa: makeFile(t.CAFile)}
	if t.ServerName != "" {
		v.MatchTypedSubjectAltNames = []*tlsv3.SubjectAltNameMatcher{{
			SanType: tlsv3.SubjectAltNameMatcher_DNS,
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: t.ServerName}},
		}}
	}
	return v
}

func makeFile(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
