//! The texts of signing keys: those of an endpoint, and the default keys.

use crate::domain::signing_key::KeyKind;

super::texts!(SigningKeyTexts {
    title: "Signing keys", "签名密钥";
    id: "Id", "ID";
    kind: "Kind", "类型";
    symmetric: "shared secret (HMAC-SHA256)", "共享密钥（HMAC-SHA256）";
    ed25519: "key pair (Ed25519)", "密钥对（Ed25519）";
    unreadable: "this server cannot read it", "本服务器无法读取";
    made: "Added", "添加时间";
    signs: "Signs", "签名有效期";
    for_good: "for good", "长期有效";
    until: "until", "至";
    ended: "no more, since", "已停用，自";
    public_key: "Public key", "公钥";
    none: "It has no keys of its own; the default keys sign.", "没有专用密钥，使用默认密钥签名。";
    default_until: "The default keys sign along until", "默认密钥同时签名至";

    add: "Add a key (rotate)", "添加密钥（轮换）";
    help_add: "The new key signs from now on. The others sign along for the overlap, so that the receiver can change over; then they end.", "新密钥立即生效。重叠期内旧密钥仍同时签名，便于商户切换，到期后停用。";
    overlap: "Overlap", "重叠期";
    overlap_hint: "From 0s to 30d, such as 1d or 12h", "0s 至 30d，例如 1d、12h";
    secret: "Secret", "密钥";
    secret_hint: "Leave it empty to have one made. A made one is shown once.", "留空则自动生成，生成的密钥仅显示一次。";
    bad_key: "The key was not added.", "未添加密钥。";
    bad_secret: "The secret is wrong.", "密钥内容不正确，应以 whsec_ 或 whsk_ 开头，并与类型一致。";
    bad_overlap: "The overlap is wrong.", "重叠期应为 0s 至 30d。";
    bad_kind: "The kind is wrong.", "类型不正确，或与密钥内容不一致。";
    refused: "The signing keys do not allow this.", "当前的签名密钥不允许此操作。";

    remove: "Remove", "移除";
    help_remove: "It signs no attempt that begins from now on. A receiver that knows this key alone then refuses calls.", "此后开始的投递不再使用该密钥签名。只配置了该密钥的商户将拒绝请求。";
    confirm: "Yes, remove it", "确认移除";
    not_confirmed: "Nothing was removed: tick the box to confirm.", "未移除：请先勾选确认。";

    made_title: "A signing key was made", "已生成签名密钥";
    made_lead: "This is its secret. It is shown this once and nowhere else: copy it now, and give it to the receiver in a safe way.", "以下为密钥内容，仅显示这一次。请立即复制，并通过安全渠道交给商户。";
    made_overlap: "The keys before it sign along for", "此前的密钥同时签名时长";
    back: "Back", "返回";

    default_title: "Default keys", "默认密钥";
    default_intro: "They sign the calls to URLs, and to endpoints that have no keys of their own.", "用于签名对 URL 的请求，以及对未配置专用密钥的端点的请求。";
    default_warning: "Every receiver that verifies with a default key knows it or shares it with others, so each of them can forge calls to the others. Give a receiver an endpoint with a key of its own.", "使用默认密钥验签的各商户共享该密钥，因此任一商户都可能伪造对其他商户的请求。建议为商户建立端点并配置专用密钥。";
    default_none: "There is none: every server signs with its own --signing-secret.", "暂无默认密钥：各服务器使用自身的 --signing-secret 签名。";
});

impl SigningKeyTexts {
    /// A kind of key.
    pub fn kind_name(&self, kind: KeyKind) -> &'static str {
        match kind {
            KeyKind::Symmetric => self.symmetric,
            KeyKind::Ed25519 => self.ed25519,
        }
    }
}
